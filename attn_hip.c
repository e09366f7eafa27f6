/* attn_hip.c - the GPU backend of attn.h.
 *
 * Compiled by a plain C compiler it defines just attn_hip_register(), which answers ATTN_ERR_NO_GPU_COMPILER:
 *   cc -c attn_hip.c
 */
#include "attn.h"

attn_status attn_hip_register(void) { return ATTN_ERR_NO_GPU_COMPILER; }
