/* windows.c - attn.h as a guest of a Windows process: processors that it may use, tasks that run at the same time, the clock, memory,
 * and a library that is freed while its threads sleep. windows.h is there as a host has it: before the header, with all its macros,
 * or (WINDOWS_AFTER) behind it. Arguments: attn.dll, built of the header alone. Exit status 0 when all is right. */
#ifndef WINDOWS_AFTER
#include <windows.h>
#endif
#define ATTN_IMPLEMENTATION
#include "attn.h"
#ifdef WINDOWS_AFTER
#include <windows.h>
#endif
#include <stdio.h>

static int faults;
static void expect(int right, const char *what)
{
    printf("%s  %s\n", right ? "ok    " : "FAILED", what);
    faults += !right;
}

/* Tasks that wait for each other: only threads that run at the same time end this, and well before the time is up. */
static LONG arrived, missed;
static void meet(void *arg, int64_t i)
{
    const DWORD start = GetTickCount();
    (void)i;
    InterlockedIncrement(&arrived);
    while (InterlockedCompareExchange(&arrived, 0, 0) < *(LONG *)arg)
        if (GetTickCount() - start > 20000) {
            InterlockedIncrement(&missed);
            return;
        }
}
static int at_once(LONG n)
{
    attn_desc d;
    memset(&d, 0, sizeof d);
    d.threads = n;
    arrived = missed = 0;
    return attn_parallel(&d, meet, &n, n) == ATTN_OK && !missed && arrived == n;
}

static void count(void *arg, int64_t i) { InterlockedIncrement((LONG *)arg + i); }
static DWORD WINAPI caller(void *arg)
{
    attn_desc d;
    LONG *done = (LONG *)arg;
    memset(&d, 0, sizeof d);
    d.threads = 3;
    for (int k = 0; k < 2000; k++)
        if (attn_parallel(&d, count, done, 16)) return 1;
    return 0;
}
static void callers(void)
{
    static LONG done[4][16];
    HANDLE thread[4];
    int right = 1;
    for (int t = 0; t < 4; t++) thread[t] = CreateThread(NULL, 0, caller, done[t], 0, NULL);
    WaitForMultipleObjects(4, thread, TRUE, INFINITE);
    for (int t = 0; t < 4; t++)
        for (int i = 0; i < 16; i++) right &= done[t][i] == 2000;
    expect(right, "four threads call 2000 times each: every task once");
}

static void unloading(const char *path)
{
    typedef attn_status(parallel)(const attn_desc *, void (*)(void *, int64_t), void *, int64_t);
    typedef void(shutdown)(void);
    union { FARPROC raw; parallel *run; shutdown *end; } f;
    attn_desc d;
    LONG done[16];
    memset(&d, 0, sizeof d);
    d.threads = 3;
    for (int ended = 1; ended >= 0; ended--) {
        HMODULE library = LoadLibraryA(path);
        memset(done, 0, sizeof done);
        expect(library != NULL, "the library is loaded");
        if (!library) return;
        f.raw = GetProcAddress(library, "attn_parallel");
        expect(f.raw && f.run(&d, count, done, 16) == ATTN_OK && done[15] == 1, "its threads work");
        if (ended) {
            f.raw = GetProcAddress(library, "attn_shutdown");
            f.end();
        }
        FreeLibrary(library);
        Sleep(100);
        expect((GetModuleHandleA(path) == NULL) == ended,
            ended ? "freed after attn_shutdown it is gone" : "freed while its threads sleep it stays, and nothing crashes");
    }
}

int main(int argc, char **argv)
{
    DWORD_PTR mine, all;
    MEMORYSTATUSEX memory;
    _putenv("ATTN_THREADS=");
    double start;
    GetProcessAffinityMask(GetCurrentProcess(), &mine, &all);
    if (argc > 2) {                             /* in a process of its own: the count is read once */
        SetProcessAffinityMask(GetCurrentProcess(), mine & (~mine + 1));
        expect(attn_threads() == 1, "one processor allowed: one thread");
        puts(faults ? "not right" : "all right");
        return faults != 0;
    }
    int bits = 0;
    for (; mine; mine &= mine - 1) bits++;
    expect(attn_threads() == bits, "as many threads as processors");
    expect(at_once(2) && at_once(7), "tasks run at the same time");
    attn_shutdown();
    expect(at_once(3), "after attn_shutdown, too");
    callers();
    memory.dwLength = sizeof memory;
    GlobalMemoryStatusEx(&memory);
    expect(attn__physical_memory() == (int64_t)memory.ullTotalPhys, "physical memory");
    start = attn_seconds();
    Sleep(200);
    start = attn_seconds() - start;
    expect(start > 0.15 && start < 20, "the clock counts seconds");
    if (argc > 1) unloading(argv[1]);
    attn_shutdown();
    puts(faults ? "not right" : "all right");   /* wine ends well after a crash */
    return faults != 0;
}
