/* llama2.h - the attention of llama2.c's run.c by attn.h: test/bench/programs.sh puts this call where the program's loops over heads are.
 * One token's q [heads, head_size] against the first `keys` rows of a layer's caches, [seq_len, kv_dim] each. */
#include "attn.h"
static void attn_llama2(float *out, const float *q, const float *k, const float *v, int heads, int kv_heads, int head_size, int keys)
{
    attn_desc d = { 0 };
    d.batch = 1, d.q_len = 1, d.kv_len = keys, d.heads = heads, d.kv_heads = kv_heads, d.head_dim = head_size;
    d.q.data = q, d.k.data = k, d.v.data = v, d.o.data = out;
    attn_forward(&d);
}
