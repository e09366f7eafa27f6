/* second.c - the other translation unit of a program that uses attn.h twice. */
#ifdef ATTN_STATIC
#define ATTN_IMPLEMENTATION
#endif
#include "attn.h"

#ifdef __cplusplus
extern
#endif
const char *smoke_second(void);
const char *smoke_second(void) { return attn_isa(); }
