// SPDX-License-Identifier: MIT
// Device printf: the host side of the device libraries' "hostcall" protocol.
// A wave takes a packet from the free stack, fills header and payload, pushes it on the ready stack and sleeps until
// the host clears the packet's ready bit. Here the host side runs whenever a wave executes s_sleep.
//   buffer: headers, payloads, doorbell signal, free stack, ready stack, index mask (8 bytes each)
//   header: next, active mask, service, control (bit 0: ready);  payload: 8 words for each of 64 lanes
// Service 2 (printf): word 0 = flags (bit 0 begin, bit 1 end), count << 5, message id << 8; then up to 7 data words.
// A message is a stream number, the zero-terminated format, and the arguments, all padded to 8 bytes.
#include "hipsim.h"
#include <stdlib.h>
#include <pthread.h>

enum { PACKETS = 64 };
typedef struct {
  u64 next, mask;
  u32 service, control;
} Header;
typedef struct {
  u64 headers, payloads, doorbell, free_stack, ready_stack, index_mask;
} Buffer;
typedef struct {
  u64 id;
  u64 *w;
  int n;
} Message;
static Buffer *buffer;
static Message *messages;
static int nmessages;
static u64 next_id = 1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

u64 hostcall_buffer(void) {
  if (buffer) return (u64)buffer;
  buffer = mem_alloc(sizeof *buffer, A_KERNARG, "hostcall buffer");
  Header *h = mem_alloc(PACKETS * sizeof *h, A_KERNARG, "hostcall headers");
  u64 *p = mem_alloc(PACKETS * 64 * 8 * sizeof *p, A_KERNARG, "hostcall payloads"), *sig = mem_alloc(64, A_KERNARG, "hostcall signal");
  memset(sig, 0, 64);
  memset(h, 0, PACKETS * sizeof *h);
  // stack entries are index | tag << 6; 0 ends the list
  for (int i = 1; i < PACKETS; i++) h[i].next = (u64)(i - 1) | PACKETS;
  *buffer = (Buffer){(u64)h, (u64)p, (u64)sig, (u64)(PACKETS - 1) | PACKETS, 0, PACKETS - 1};
  h[0].next = 0;
  return (u64)buffer;
}
static int print(const u64 *w, int n) {
  if (n < 2) return -1;
  FILE *out = w[0] & 1 ? stderr : stdout;
  const char *f = (const char *)(w + 1);
  int used = 1 + (int)(strlen(f) / 8 + 1), total = 0;
#define NEXT (used < n ? w[used++] : 0)
  while (*f) {
    if (*f != '%') {
      fputc(*f++, out);
      total++;
      continue;
    }
    if (f[1] == '%') {
      fputc('%', out);
      f += 2;
      total++;
      continue;
    }
    char spec[64];
    int k = 0;
    bool l = false;
    spec[k++] = *f++;
    while (*f && strchr("-+ #0123456789.*hlLqjzt", *f) && k < 50) {
      if (*f == '*') k += snprintf(spec + k, 12, "%d", (int)NEXT);
      else if (strchr("hlLqjzt", *f)) l |= *f != 'h';
      else spec[k++] = *f;
      f++;
    }
    char c = *f ? *f++ : 'd';
    if (c == 's') {
      const char *s = used < n ? (const char *)(w + used) : "";
      used += (int)(strlen(s) / 8 + 1);
      spec[k++] = 's';
      spec[k] = 0;
      total += fprintf(out, spec, s);
      continue;
    }
    u64 a = NEXT;
    if (strchr("fFeEgGaA", c)) {
      spec[k++] = c;
      spec[k] = 0;
      total += fprintf(out, spec, asd(a));
      continue;
    }
    if (c == 'c') {
      spec[k++] = 'c';
      spec[k] = 0;
      total += fprintf(out, spec, (int)a);
      continue;
    }
    if (c == 'p') {
      spec[k++] = 'p';
      spec[k] = 0;
      total += fprintf(out, spec, (void *)a);
      continue;
    }
    spec[k++] = 'l';
    spec[k++] = 'l';
    spec[k++] = c;
    spec[k] = 0;
    total += fprintf(out, spec, l ? (long long)a : c == 'd' || c == 'i' ? (long long)(i32)a : (long long)(u32)a);
  }
  fflush(out);
  return total;
}
static void printf_service(u64 *p) {
  u64 d = p[0], id = d >> 8;
  int len = d >> 5 & 7, m = 0;
  if (d & 1) {
    messages = realloc(messages, (nmessages + 1) * sizeof *messages);
    m = nmessages++;
    messages[m] = (Message){id = next_id++, NULL, 0};
  } else
    while (m < nmessages && messages[m].id != id) m++;
  if (m == nmessages) {
    p[0] = 0;
    return;
  }
  Message *q = &messages[m];
  q->w = realloc(q->w, (q->n + len + 1) * 8);
  memcpy(q->w + q->n, p + 1, len * 8);
  q->n += len;
  q->w[q->n] = 0;
  if (d & 2) {
    p[0] = (u64)(i64)print(q->w, q->n);
    free(q->w);
    *q = messages[--nmessages];
  } else p[0] = (d & 0xfc) | id << 8;
}
void hostcall_service(Wave *w, const Inst *in) {
  if (!buffer) return;
  pthread_mutex_lock(&lock);
  for (u64 e = __atomic_exchange_n(&buffer->ready_stack, 0, __ATOMIC_ACQ_REL); e;) {
    u64 i = e & buffer->index_mask;
    Header *h = (Header *)buffer->headers + i;
    u64 *p = (u64 *)buffer->payloads + i * 512;
    e = h->next;
    for (int l = 0; l < 64; l++) {
      if (!(h->mask >> l & 1)) continue;
      if (h->service == 2) printf_service(p + l * 8);
      else {
        u32 s = h->service;
        pthread_mutex_unlock(&lock);
        kernel_fail(w, in, l, "host call service %u is not supported (device malloc or a host function)", s);
      }
    }
    __atomic_and_fetch(&h->control, ~1u, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&lock);
}
