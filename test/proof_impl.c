/* proof_impl.c - the implementation as one object for the proofs: that of the unit tests and the library's own Philox. */
#include "impl.c"

void proof_impl_philox(const uint32_t ctr[4], const uint32_t key[2], uint32_t out[4]);
void proof_impl_philox(const uint32_t ctr[4], const uint32_t key[2], uint32_t out[4]) {
    attn__philox(ctr, key, out);
}
