/* attn_bench.c - verifies and times the backends of attn.h on the cases of five benchmark systems.

     cc -O2 -o attn_bench attn_bench.c attn_hip.c -pthread -lm -ldl
     ./attn_bench                                   the default selection, under 90 s on two cores
     ./attn_bench 1 512 8 64                        one shape: batch, tokens, heads, head_dim
     ./attn_bench --suite rocmforge --format json   one whole document on stdout, the rest on stderr
     ./attn_bench --tune                            other tile sizes; --ablate: no optimization each
     ./attn_bench --suite decode --cold --wide      caches flushed before each call, every column
     ./attn_bench --baseline OLD --saved NEW        two runs of --save-baseline, nothing is measured
     ./attn_bench --help                            every flag, ./attn_bench --list every case

   A case is a vector of axes (batch, tokens, dtype, data, what to measure ...). A suite is a table
   of lines, each line a product of axis values written as the flags are; a flag given by the user
   replaces that axis of every line. A case and a backend make one row; there is one row type, and
   every format and report is a writer over it. So a suite is a page of table: its row says how
   its rows are read, and names a function where it concludes something that no other suite does.
   No code asks for the name of a suite.

   --plugin LIB.so adds backends of other people's. The shared object is compiled against attn.h,
   whose declarations it needs alone, and has one function with C linkage:

     #include "attn.h"
     attn_status attn_plugin_register(attn_status (*add)(const attn_backend *))
     {
         static const attn_backend mine = { "mine", ATTN_ABI, plan, run, NULL, NULL, NULL, NULL, NULL };
         return add(&mine);                         plan and run as attn.h describes them
     }

   `add` is the attn_register of this program, so that a plugin links nothing of it. It may be
   called more than once, and what it returns is returned; a status refuses the plugin. A plugin
   compiled against another attn.h is refused by its ATTN_ABI. For attn_parallel or attn_convert
   a plugin compiles a copy of its own: ATTN_STATIC with ATTN_IMPLEMENTATION.

   Exit code: 0, 1 a wrong result, a regression or a verdict not reached, 2 bad input,
   130 interrupted (the document is whole).

   SUITES  Each runs whole as `--suite NAME`: everything that its system published. With --quick it
   runs a short selection, in a minute or less on two cores (openpi: in up to three). In a whole run
   the timed calls of a row take at most a minute, unless three calls need longer or --iterations
   asks for more. What takes longer than a minute is announced before it starts; a case that does
   not fit in memory is refused, with its name and size, and the rest runs. Several suites run
   together: --suite memory,scaling. A flag beside a suite replaces that value in all of its cases:
   `--suite adaattn --seq-len 128 --batch-size 2` is AdaAttn's printed example; those that cannot
   have it are left out, and their number is said. What a whole run needs is said for two cores.

     rocmforge    one head, tokens = dim, ROCmForge's sin/cos/tan data; then lengths, dims, causal,
                  batch; random, peaked and masked data, because theirs makes attention uniform;
                  time to first token; CPU against GPU. Minutes.
                  Read `speedup` (theirs took 33.463 us to 348.592 ms) and their tokens/s;
                  `empty ms` is a call that has nothing to compute; `ttft ms` has its spread.
     openpi       f16, causal, head_dim 256, heads 32/32 and 32/8: time, memory, correctness; the
                  share of the memory that is the score matrix. Its modules are gemma (tokens of
                  three experts under a block mask) and gemma_fast (a cache with appended tokens):
                  --modules runs those alone that it names, --projections whole ones. An hour;
                  20 GiB, or standard is refused at S 8192.
                  Read the verdict at the end. It is reached when, over what was measured,
                  flash takes 15% less time and 50% less memory than standard, of the cases of the
                  longest S in that which saves least, standard's memory grows as S^2, and every
                  result is right. The exit code is 1 when it is not; it is 0 where none of the
                  three was measured, and the verdict then is "not run".
     flash_v2     the guide's eight shapes: forward, backward, both; memory over S; batch, weak and
                  strong scaling; which of its block sizes fit which chip. Half an hour; 24 GiB for
                  standard at 64x1024x64x128.
                  Read `p50` (the workspace is given) and `total ms` (it is not). Below the rows
                  stands every figure of theirs beside ours: times, backward over forward, memory
                  as a factor, GB/s, scaling. Theirs were measured on a GPU, an L20.
     adaattn      dense attention, forward, backward, total, alone and with the four projections,
                  which need OpenBLAS: without it their rows are `declined`. Four minutes.
                  Its "backward" includes the forward: compare our `fwd+bwd`. Its adaptive modes
                  are rows of cases with a policy, beside flash: quality, balanced and speed are
                  tolerances of 1e-4, 1e-3 and 1e-2 of the largest |v|. `precision` is attn.h
                  with the tolerance: from codes of int16, where that pays. `rank` sums scores
                  over as few dimensions of a basis of the keys as the tolerance needs (>>basis).
                  Both compute the backward exactly.
                  Read `max err` beside `max cert`, the largest certificate: no element is wrong
                  by more than that and what plain f32 code rounds. The notes say how many tiles
                  were int16, what was redone and why calls stayed dense, and the dimensions that
                  rank summed; the rows "metrics" the entropy of heads, and how many keys a row
                  could go without for 99% of its weight.
     decode       one-token steps against a KV cache in f32, f16, bf16, int8 and fp8, contiguous
                  and paged. Ten minutes; 2 GiB.
                  Read `of bandw.` first: a step is limited by how fast the cache is read. `p50` is
                  the time of a token, `ttft ms` prefill and first token.
     memory       workspace counted through the allocator hook, peak RSS of a process for each
                  case, exponents, crossover. A minute; 3 GiB.
                  Read `of SxS`, the workspace as a share of the score matrix. Standard's memory
                  grows as S^2, that of flash no faster than S.
     scaling      fixed work over threads, work that grows with the threads, growing batch; flash
                  against standard at every length from 1 on. A minute.
                  Read throughput and efficiency in the notes, `vs std` at each length, and the
                  line "crossover". Below the rows stands the guide's scaling beside ours.
                  Built with -DATTN_MPI (make attn_bench_mpi) it is of ranks instead of threads:
                    mpirun -n 2 build/attn_bench_mpi --suite scaling
                  A row is a method: the ring of ranges or of zigzag pairs, ulysses, or decode over
                  a cache that is spread. `p50` is the time until the last rank is done; `work` and
                  `messages` what its attention and its messages take alone; `hidden` the share of
                  the messages that the call does not take longer than its work; `imbal.` the most
                  work of a rank over the mean, `of pairs` the same counted; `sent` the bytes of all
                  ranks. `model` is the sum over the ring's steps of the longer of work and message,
                  by the rate of the row's own work and the link measured before. Rows of status
                  "model" say the same of 8, 64 and 1024 ranks and 1M and 16M tokens, by the rate,
                  link and delay in their notes.
     correctness  the same bits on every run, for every number of threads, alone and in a batch;
                  finite at scales 0.1, 1, 10; errors of each type, f16 and bf16 against f32;
                  gradients against finite differences. A minute.
                  Read `status`; how far a 16-bit type is from f32 is in the notes.

   A ROW is verified against the f64 reference, then timed, and printed when it is done; its largest
   error stands in it. The timed calls of a case's backends alternate, so that a machine that
   changes meanwhile changes for all of them; modules, decoding in steps, files, --tune and
   --ablate go one after the other. An outlier or a slow first call is named below.
   The table has the columns that decide, in 100 characters; --wide has all of them, csv and
   json too, and the samples. A forward call is timed without lse, and verified with it.
   After the timed calls one more has to leave the bits of the first, or is verified itself. A call
   that writes to its inputs, or beside any tensor, or not to all of its outputs, is wrong.
     p50          median of the `n` timed calls, with half of its 95% interval, or how far that
                  reaches below and above; six calls at least have one. Every rate and ratio is one
                  of medians.
     GFLOP/s      2 x visible pairs x heads x (head_dim + v_dim), the backward 2.5 times that. A
                  module's count its projections too, 2 x tokens x weights, the backward twice that.
                  openpi, flash_v2 and adaattn count otherwise: `their_flops` in csv and json.
     of peak      of the FMA peak of the best ISA, measured before and after the row on the same
                  threads, the best of 12 runs of 2 ms, or of as many as --iterations says, but 3
                  at least. Where ATTN_ISA forces one, its own peak is in the note. Empty for a
                  GPU, whose peak is not measured. `peak` in --wide, peak_gflops in csv and json,
                  is what it is a share of; `bandw.`, bandwidth_gbs, that of `of bandw.`.
     bound        `overhead` where more than half of the call is what an empty call takes, and the
                  work, at the rates measured, takes less than half; else the longer of: the
                  arithmetic at the peak, and the call's own memory traffic, its workspace included,
                  at the bandwidth measured.
     speedup      over the published figure; `vs std` over standard. Above 1.5 is clearly faster,
                  below 1 slower; a ratio near 1 is within the noise of most machines.
     t ~ S^       exponents, fitted over the lengths from a 16th of the longest on, three at least.
                  Where that begins stands in the notes. On stdout only the last row of a series has
                  them, the others are printed before they are known; in files and in the markdown
                  format all rows do.
     status       ok; wrong: outside of the error bound, and the exit code is 1; declined: the
                  backend does not take the case, and the note has its reason; refused: does not
                  fit in memory, with the size; skipped: would take too long, with the time: the
                  f64 reference, or a long case under --quick.
   --filter TEXT runs the cases with TEXT in their names. --cold flushes the caches before each
   call, as a whole model does between two of its attention layers.

   A GPU (build: the manual of attn_hip.c) adds rows of the backend hip to every suite, and below
   them a table CPU against GPU with the length from which on the GPU pays. `total ms` is a call
   with host tensors, its copies included; `kernel ms` is the GPU's own clock; `device` is the
   memory that the call took there. Without a GPU one line says why there is none, and so does each
   row that --backend hip,flash asks for.

   --tune times flash with a table of tile sizes, named in the `case` column: BM rows of a unit and
   BN keys of a block in the forward, BK in the backward. It changes nothing. `vs default` is the
   speedup over the tiles that attn.h takes by itself, and one line on stderr names the fastest of
   each case; differences smaller than the interval beside `p50` are noise. Without shape flags:
   f32, 1024 tokens, head_dim 64 and 128, forward and backward. Your own shape:
     ./attn_bench --tune 1 4096 8 64 --dtype bf16 --backward

   --ablate runs each case with every optimization on, then with one of them turned off: V is read
   in place instead of packed; a small query tile (BM 96); small key blocks (BN 64, 128); keys not
   split across threads (16 queries, 16384 keys, one head); denormals not flushed to zero (queries
   times 64, so that many weights are denormal); the backward's small block (BK 64). `vs default`
   below 1: the case is slower without the optimization, so it pays on this machine; above 1: the
   case is faster without it. Shape flags replace those of every case. --tune and --ablate take less
   than a minute each on two cores, with --quick about ten seconds; their rows are verified too.

   FILES  .npy, float32 or float16, C order. --input [B,S,H,D], one sequence [S,H,D], or [B,S,H*D]
   with --num-heads:
     ./attn_bench --input q.npy,k.npy,v.npy --mask m.npy --causal --backend flash --output o.npy
     ./attn_bench --input q.npy,k.npy,v.npy --expect o.npy       exit code 1 when it differs

   PLUGINS  A plugin's rows are verified and timed like all others, and a wrong one is reported so.
   One that crashes or calls exit() is named, the document is ended with the rows so far, and the
   exit code is 2, also while it is loaded or asked for a plan. What it prints goes to stderr; a
   locale that it sets changes no number that is written.
   An example in plain loops:
     cc -O2 -I. -shared -fPIC -DKIND=RIGHT test/bench/plugin.c -o build/loops.so -lm
     ./attn_bench --plugin build/loops.so --seq-len 64,128 --backward

   REPORTS  --output-dir leaves performance_results.json, memory_results.json,
   correctness_results.json and summary_report.md, all of them or none. --plot adds SVG plots and
   plots.csv, the points that they are drawn from; it needs gnuplot. Reports that are there are kept
   where not one row was measured.
     ./attn_bench --seq-len 128,256,512 --iterations 20 --output-dir build/report

   BASELINES
     ./attn_bench --seq-len 256 --backend flash --save-baseline build/baseline.csv
     ./attn_bench --seq-len 256 --backend flash --baseline build/baseline.csv
   The first saves the samples of every row, as CSV; the second compares each row with the saved
   one: old, new, the change with a 95% interval, and p. Both measure in 25 processes, one after the
   other (--processes N), because two processes of one program may differ by more than a slower
   program does. Each has its median; old and new are the lowest tenths of those, for other load only
   ever slows a process down. The interval is a bootstrap over processes; p is the share of the ways
   to deal the processes to two runs that rank the fastest tenths of the two as far apart. With
   fewer than five processes calls take their place, and one line warns; of fewer than ten one slow
   one among the saved may hide that a program is slower. A row is slower when p is
   below 0.01 and the interval lies above 5%; the run then measures once more, in new processes, and
   only a row that is slower again makes the exit code 1; of another the second numbers are shown. It is `same` when the interval is within
   5%, and else `unclear`, which makes no exit code. What a slower clock explains of a row that is
   slower is taken out, by the medians of the peaks beside the calls, a tenth at most; its line says
   so. The changes of p95 and p99 are shown, and judge nothing. A row that was measured and is wrong
   or fails now is named, and makes the exit code 1 too; of rows that are not measured now, or were
   not then, the number is said. --baseline OLD --saved NEW compares two saved runs, measures
   nothing and takes no other flags. Another processor, or no row in common, is an error (exit code
   2). A saved run is kept where nothing was measured, and where --save-baseline names the baseline
   that is not reached.
   Ctrl-C and SIGHUP end with the rows that are finished, as one whole document; where the program
   was started with them ignored, as by nohup, they are.

   TROUBLE
     the same case varies by 10% and more   other load, or a drifting clock: `of peak` moves less
                  than the times do; raise --iterations, or take --min-time 1
     slow first run                         page faults, and threads that start: normal in the
                  first rows
     `of peak` or `of bandw.` is empty, "no share of"   the machine was faster in the calls than in
                  the samples beside them, so that the share was above 1: measure again
     a length at which standard is faster   the line "crossover" counts medians whose intervals lie
                  apart, and says how many more are slower: measure again on an idle machine
     nothing is compared                    the baseline is of another processor or ISA: save one on
                  this machine
     too few, unclear                       so few calls, or processes, cannot tell a change from
                  noise: raise --iterations, or --processes, in both runs
     would take about N s                   the reference is plain f64 loops; --verify runs it
                  however long it takes
     128 GiB of scores do not fit           standard stores all scores; flash does not
     hip or flash is declined               the note, or attn_query, gives the reason

   PROFILING  Make the call to look into the only one, and long enough. On the CPU kernels end in
   __avx512, __avx2 or __portable.
     run='./attn_bench 1 4096 8 64 --backend flash --threads 1 --min-time 5'
     perf stat -e cycles,instructions,cache-misses,dTLB-load-misses $run    how far from the peak
     perf record -g $run && perf report --no-children                       which kernel takes time
     perf annotate attn__mm_6x4__avx512                                     which instruction waits
     run='./attn_bench 1 4096 8 64 --device hip --dtype f16 --iterations 20'
     rocprofv3 --kernel-trace --memory-copy-trace --stats -- $run           AMD: kernels and copies
     rocprofv3 --pmc SQ_WAVES SQ_INSTS_VALU SQ_LDS_BANK_CONFLICT -- $run    AMD: counters
     nsys profile --stats=true $run                                         NVIDIA: kernels, copies
     ncu --set full --launch-skip 5 --launch-count 1 $run                   NVIDIA: one launch

   CONTENTS
     >>system    what the operating system does: programs, libraries, files, memory
     >>axes      what a case is made of; parsing of axis values
     >>suites    the suites, as tables of lines; the figures that the five systems published
     >>row       the result row: one list of fields
     >>npy       reading and writing .npy files
     >>problem   tensors and description of a case
     >>check     verification against the f64 reference, whole or by sampled rows
     >>basis     AdaAttn's adaptive rank, with a certificate
     >>measure   what is measured: time, memory, generation, a module, a property
     >>run       cases times backends, progress, announcements
     >>ranks     ATTN_MPI: attention over the ranks of a communicator
     >>derive    what follows from several rows: speedups, exponents, verdicts
     >>writers   table, csv, json, markdown
     >>reports   result files, summary and plots
     >>baseline  comparison with a saved run
     >>flags     the command line
     >>plugins   backends from shared objects
     >>main                                                        MIT licence, as attn.h */
#define _GNU_SOURCE
#define ATTN_IMPLEMENTATION
#include "attn.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#define INT WINDOWS_INT /* names that are used here as well */
#define POINTS WINDOWS_POINTS
#include <windows.h>
/* psapi.h asks for windows.h */
#include <direct.h>
#include <io.h>
#include <process.h>
#include <psapi.h>
#undef INT
#undef POINTS
#else
#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#endif

enum { EXIT_WRONG = 1, EXIT_BAD = 2, EXIT_INTERRUPTED = 130 };
#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

static volatile sig_atomic_t interrupted;
static FILE *document; /* what stdout was: what backends print goes to stderr */

/* A program that this one has started and waits for. */
#if defined(_WIN32)
static void tell_child(int number) { (void)number; }
static bool open_standard(void) { return true; }
#else
static volatile pid_t running_child;
static void tell_child(int number) {
    if (running_child > 0) kill(running_child, interrupted ? SIGKILL : number);
}
/* Where one of 0, 1 and 2 is closed the next file would have its number, and be read or written as if it
 * were it. False: there is no stdout. */
static bool open_standard(void) {
    static const int others[] = {STDIN_FILENO, STDERR_FILENO};
    for (int i = 0; i < COUNT(others); i++) {
        if (fcntl(others[i], F_GETFD) >= 0) continue;
        int fd = open("/dev/null", O_RDWR);
        if (fd >= 0 && fd != others[i]) dup2(fd, others[i]), close(fd);
    }
    return fcntl(STDOUT_FILENO, F_GETFD) >= 0;
}
#endif
static void die_within(unsigned seconds);
static void end_document(void);
static void on_signal(int number) {
    tell_child(number);
    if (interrupted) { /* a second Ctrl-C does not wait for the call in progress */
        die_within(5);
        end_document();
        _exit(EXIT_INTERRUPTED);
    }
    interrupted = number;
}

/* Every refusal is one line, and nothing else has been written. */
static int refuse(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("attn_bench: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return EXIT_BAD;
}

/* Numbers are written and read with a point: a plugin may have called setlocale(). */
static void keep_point(void) { setlocale(LC_NUMERIC, "C"); }

static void *grow(void *array, int64_t count, size_t size) {
    if (count & (count - 1)) /* room is doubled whenever a power of two is full */
        return array;
    void *p = realloc(array, (size_t)(count ? 2 * count : 1) * size);
    if (!p) {
        refuse("out of memory");
        exit(EXIT_BAD);
    }
    return p;
}

/* ================================================================================ >>system ==== */
/* Runs a program, never through a shell: arguments are what they are. `in` and `out`: its standard
 * input and output, -1: none. Returns whether it was found and ended well. */
#if defined(_WIN32)
static const char *system_error(void) {
    static char text[32];
    snprintf(text, sizeof text, "Windows error %lu", GetLastError());
    return text;
}
/* One argument as the other program's C library takes it apart again. */
static char *quoted(const char *argument) {
    char *text = malloc(2 * strlen(argument) + 3), *to = text;
    if (!text) return NULL;
    *to++ = '"';
    for (const char *at = argument; *at; at++) {
        size_t slashes = strspn(at, "\\");
        bool doubled = at[slashes] == '"' || !at[slashes];
        for (size_t i = 0; i < (doubled ? 2 * slashes : slashes); i++) *to++ = '\\';
        at += slashes;
        if (!*at) break;
        if (*at == '"') *to++ = '\\';
        *to++ = *at;
    }
    *to++ = '"';
    *to = 0;
    return text;
}
static bool run_program(const char *const argv[], int in, int out) {
    enum { MOST = 300 };
    char *copy[MOST + 1] = {NULL};
    int saved[3], count = 0, nowhere = _open("NUL", O_RDWR), with[3] = {in, out, out < 0 ? -1 : 2};
    bool good = true;
    while (argv[count] && good)
        good = count < MOST && (copy[count] = quoted(argv[count])) != NULL && ++count;
    fflush(NULL);
    for (int i = 0; i < 3; i++) {
        saved[i] = _dup(i);
        if (with[i] != i) _dup2(with[i] < 0 ? nowhere : with[i], i);
    }
    if (good) good = !_spawnvp(_P_WAIT, argv[0], (const char *const *)copy);
    for (int i = 0; i < 3; i++) {
        if (saved[i] < 0) continue;
        _dup2(saved[i], i);
        _close(saved[i]);
    }
    if (nowhere >= 0) _close(nowhere);
    while (count) free(copy[--count]);
    return good;
}
static bool make_pipe(int ends[2]) { return !_pipe(ends, 4096, O_BINARY); }
static int64_t self_file(char path[4096]) {
    DWORD n = GetModuleFileNameA(NULL, path, 3000);
    for (char *at = path; n && *at; at++)
        if (*at == '\\') *at = '/';
    return n < 3000 ? (int64_t)n : 0;
}
static bool self_path(char path[4096]) { return self_file(path) > 0; }

#define OPENBLAS "libopenblas.dll"
static void *library_open(const char *path) { return (void *)LoadLibraryA(path); }
static void *library_symbol(void *library, const char *name) {
    FARPROC found = GetProcAddress((HMODULE)library, name);
    void *symbol;
    memcpy(&symbol, &found, sizeof symbol);
    return symbol;
}
static const char *library_error(void) { return system_error(); }
static void set_environment(const char *name, const char *value) {
    if (!getenv(name)) _putenv_s(name, value);
}

static bool real_path(const char *path, char real[4096]) {
    snprintf(real, 4096, "%s", path);
    return true;
}
static bool replace_file(const char *from, const char *to) {
    return MoveFileExA(from, to, MOVEFILE_REPLACE_EXISTING) || (errno = EACCES, false);
}
static bool reach_disk(FILE *f) { return !fflush(f) && !_commit(_fileno(f)); }
static bool make_directory(const char *path) { return !_mkdir(path); }

static void *aligned_get(size_t size, size_t align) { return _aligned_malloc(size, align); }
static void aligned_put(void *p) { _aligned_free(p); }
static double available_memory(void) {
    MEMORYSTATUSEX m;
    m.dwLength = sizeof m;
    return GlobalMemoryStatusEx(&m) ? (double)m.ullAvailPhys : 0;
}
static int64_t peak_resident_bytes(void) {
    PROCESS_MEMORY_COUNTERS m;
    return GetProcessMemoryInfo(GetCurrentProcess(), &m, sizeof m) ? (int64_t)m.PeakWorkingSetSize
                                                                   : 0;
}
static int64_t last_cache(void) { return 0; } /* not known */
static const char *cpu_name(char text[192]) {
    char name[128] = "unknown CPU";
    DWORD size = sizeof name;
    const char *model = getenv("PROCESSOR_IDENTIFIER");
    RegGetValueA(HKEY_LOCAL_MACHINE, "HARDWARE\\DESCRIPTION\\System\\CentralProcessor\\0",
        "ProcessorNameString", RRF_RT_REG_SZ, NULL, name, &size);
    snprintf(text, 192, "%.120s (%.60s)", name, model ? model : "?");
    return text;
}

static int duplicate(int fd) { return _dup(fd); }

static void catch_signals(void (*on_crash)(int)) {
    static const int crashes[] = {SIGSEGV, SIGABRT, SIGFPE, SIGILL};
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    for (int i = 0; i < COUNT(crashes); i++) signal(crashes[i], on_crash);
}
static void die_within(unsigned seconds) { (void)seconds; } /* not known */
#else
static bool run_program(const char *const argv[], int in, int out) {
    int status, nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    fflush(NULL);
    pid_t child = fork();
    if (!child) {
        setpgid(0, 0); /* a terminal's signals come once: by way of on_signal */
        dup2(in < 0 ? nowhere : in, STDIN_FILENO);
        dup2(out < 0 ? nowhere : out, STDOUT_FILENO);
        if (out < 0) dup2(nowhere, STDERR_FILENO);
        execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    if (nowhere >= 0) close(nowhere);
    running_child = child;
    while (child > 0 && waitpid(child, &status, 0) < 0)
        if (errno != EINTR) child = -1;
    running_child = 0;
    return child > 0 && WIFEXITED(status) && !WEXITSTATUS(status);
}
static const char *library_error(void) { return dlerror(); }
static bool make_pipe(int ends[2]) { return !pipe(ends); }
/* This program: to be run once more, even where its file has been replaced; the length of where it
 * lies, 0: unknown. */
static bool self_path(char path[4096]) {
    snprintf(path, 4096, "/proc/self/exe");
    return true;
}
static int64_t self_file(char path[4096]) {
    ssize_t n = readlink("/proc/self/exe", path, 3000);
    return n > 0 ? (int64_t)n : 0;
}

#define OPENBLAS "libopenblas.so.0"
static void *library_open(const char *path) { return dlopen(path, RTLD_NOW | RTLD_LOCAL); }
static void *library_symbol(void *library, const char *name) { return dlsym(library, name); }
static void set_environment(const char *name, const char *value) { setenv(name, value, 0); }

/* The file that a link leads to; any other path as it is. */
static bool real_path(const char *path, char real[4096]) {
    struct stat s;
    char *led = !lstat(path, &s) && S_ISLNK(s.st_mode) ? realpath(path, NULL) : strdup(path);
    if (led) snprintf(real, 4096, "%s", led);
    free(led);
    return led;
}
static bool replace_file(const char *from, const char *to) {
    char real[4096];
    return real_path(to, real) && !rename(from, real);
}
static bool reach_disk(FILE *f) { return !fflush(f) && !fsync(fileno(f)); }
static bool make_directory(const char *path) { return !mkdir(path, 0777); }

static void *aligned_get(size_t size, size_t align) {
    void *p = NULL;
    return posix_memalign(&p, align < sizeof p ? sizeof p : align, size) ? NULL : p;
}
static void aligned_put(void *p) { free(p); }
/* What a limit of the process leaves of it. */
static double address_space(double page) {
    struct rlimit limit;
    double used = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%lf", &used) != 1) used = 0;
    if (f) fclose(f);
    return !getrlimit(RLIMIT_AS, &limit) && limit.rlim_cur != RLIM_INFINITY
               ? fmax(0, (double)limit.rlim_cur - used * page)
               : INFINITY;
}
static double available_memory(void) {
    double kib = 0;
    char line[256];
    FILE *f = fopen("/proc/meminfo", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %lf", &kib) == 1) break;
    if (f) fclose(f);
    const double page = (double)sysconf(_SC_PAGESIZE),
                 there = kib > 0 ? kib * 1024 : (double)sysconf(_SC_PHYS_PAGES) * page;
    return fmin(there, address_space(page));
}
/* The high-water mark of this program alone: that of getrusage has what the process was before it
 * was replaced by exec. */
static int64_t peak_resident_bytes(void) {
    long long kib = 0;
    char line[256];
    struct rusage usage;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "VmHWM: %lld", &kib) == 1) break;
    if (f) fclose(f);
    if (!kib && !getrusage(RUSAGE_SELF, &usage)) kib = usage.ru_maxrss;
    return (int64_t)kib * 1024;
}
static int64_t last_cache(void) {
#ifdef _SC_LEVEL3_CACHE_SIZE
    return sysconf(_SC_LEVEL3_CACHE_SIZE);
#else
    return 0;
#endif
}
static const char *cpu_name(char text[192]) {
    char line[256], name[128] = "unknown CPU", family[16] = "?", model[16] = "?";
    FILE *f = fopen("/proc/cpuinfo", "r");
    while (f && fgets(line, sizeof line, f) && line[0] != '\n') {
        sscanf(line, "model name : %127[^\n]", name);
        sscanf(line, "cpu family : %15[^\n]", family);
        sscanf(line, "model : %15[^\n]", model);
    }
    if (f) fclose(f);
    snprintf(text, 192, "%s (family %s model %s)", name, family, model);
    return text;
}

static int duplicate(int fd) { return fcntl(fd, F_DUPFD_CLOEXEC, 3); } /* no child has it */

static void catch_signals(void (*on_crash)(int)) {
    static const int crashes[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL};
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    static char stack[1 << 20]; /* a crash may be that the other one is full */
    struct sigaction action = {.sa_handler = on_signal}, was;
    for (int i = 0; i < COUNT(ends); i++) /* what is ignored stays so: nohup */
        if (sigaction(ends[i], NULL, &was) || was.sa_handler != SIG_IGN)
            sigaction(ends[i], &action, NULL);
    signal(SIGPIPE, SIG_IGN); /* a reader that went away is an error of stdout, */
    sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
    action.sa_handler = on_crash, action.sa_flags = SA_ONSTACK;
    for (int i = 0; i < COUNT(crashes); i++) sigaction(crashes[i], &action, NULL);
}
static void die_within(unsigned seconds) { alarm(seconds); }
#endif

/* The document is written to what stdout was, and all else that is written there to stderr. */
static void open_document(void) {
    int fd = duplicate(STDOUT_FILENO);
    document = fd < 0 ? NULL : fdopen(fd, "w");
    if (!document) document = stdout;
    else dup2(STDERR_FILENO, STDOUT_FILENO);
}

/* ================================================================================== >>axes ==== */
/* X(id, name, words, least, most, default, is a flag, help). A value is a number or, with words,
 * one of them: the words stand for 0, 1, .. An axis given as a list makes one case for each value;
 * the last axis varies fastest. */
enum { FILL = -1 }; /* head-dim "seq", kv-dtype "same": taken from another axis */
#define AXIS_LIST(X) \
    X(MEASURE, "measure", \
        "time|determinism|thread-count|batching|finite|gradient|loss|memory|generate|module|" \
        "metrics|ranks|model", \
        0, 12, 0, false, "what is measured") \
    X(SEQ, "seq-len", NULL, 1, 1 << 24, 512, true, "queries of a sequence") \
    X(KV, "kv-len", NULL, 0, 1 << 24, 0, true, "keys of a sequence (0: --seq-len)") \
    X(DIM, "head-dim", "seq", FILL, 1 << 16, 64, true, "width of a query and of a key") \
    X(V_DIM, "v-dim", NULL, 0, 1 << 16, 0, true, "width of a value (0: --head-dim)") \
    X(EMBED, "embed-dim", NULL, 0, 1 << 20, 0, true, \
        "model width: head-dim = embed-dim / num-heads") \
    X(HEADS, "num-heads", NULL, 1, 1 << 16, 8, true, "query heads") \
    X(KV_HEADS, "num-kv-heads", NULL, 0, 1 << 16, 0, true, "key and value heads (0: --num-heads)") \
    X(BATCH, "batch-size", NULL, 1, 1 << 20, 1, true, "sequences") \
    X(CAUSAL, "causal", NULL, 0, 1, 0, false, "causal mask") \
    X(LEFT, "window-left", NULL, -1, 1 << 24, -1, false, "keys to the left, -1 unlimited") \
    X(RIGHT, "window-right", NULL, -1, 1 << 24, -1, false, "keys to the right, -1 unlimited") \
    X(MASK, "mask", "none|random|blocks|file", 0, 3, 0, false, "boolean mask") \
    X(DATA, "data", "random|smooth|peaked|tenth|tenfold|steep|file", 0, 6, 0, false, \
        "values of the tensors") \
    X(DTYPE, "dtype", "f32|f16|bf16", 0, 2, 0, true, "type of q, k, v and o") \
    X(KV_DTYPE, "kv-dtype", "f32|f16|bf16||int8|fp8||int16|q8_0|q4_0", FILL, 9, FILL, true, \
        "type of k and v (default: --dtype)") \
    X(LAYOUT, "layout", "bshd|bhsd", 0, 1, 0, true, "order of the dimensions") \
    X(PAGE, "page-size", NULL, 0, 1 << 20, 0, true, "tokens of a cache page (0: contiguous)") \
    X(APPEND, "append", NULL, 0, 1, 0, false, "the new tokens are appended by the call") \
    X(PASS, "pass", "fwd|bwd|fwd+bwd", 0, 2, 0, false, "direction") \
    X(POLICY, "policy", "exact|quality|balanced|speed", 0, 3, 0, false, "a tolerance") \
    X(PROJECT, "project", NULL, 0, 1, 0, false, "with the Q, K, V and O projections") \
    X(COLD, "cold", NULL, 0, 1, 0, false, "caches flushed before each call") \
    X(THREADS, "threads", NULL, 0, 1024, 0, true, "CPU threads (0: all)") \
    X(SEED, "seed", NULL, 0, INT64_C(1) << 53, 1, true, "seed of the random data") \
    X(WARMUP, "warmup", NULL, 0, 1 << 20, 3, true, "untimed calls") \
    X(ITERATIONS, "iterations", NULL, 1, 1 << 24, 20, true, "timed calls")

typedef enum axis {
#define X(id, name, words, least, most, normal, flag, help) id,
    AXIS_LIST(X)
#undef X
        AXES
} axis;

static const struct {
    const char *name, *words;
    int64_t least, most, normal;
    bool flag;
    const char *help;
} axes[AXES] = {
#define X(id, name, words, least, most, normal, flag, help) \
    {name, words, least, most, normal, flag, help},
    AXIS_LIST(X)
#undef X
};
enum {
    TIME,
    DETERMINISM,
    THREAD_COUNT,
    BATCHING,
    FINITE,
    GRADIENT,
    LOSS,
    MEMORY,
    GENERATE,
    MODULE,
    METRICS,
    RANKS, /* ATTN_MPI alone */
    MODEL
};
enum { RANDOM, SMOOTH, PEAKED, TENTH, TENFOLD, STEEP, FROM_FILE };
enum { NO_MASK, RANDOM_MASK, BLOCK_MASK, FILE_MASK };
enum { FWD, BWD, FWD_BWD };
/* AdaAttn's policies, as shares of the largest |v| that a row sees. */
enum { EXACT };
static const float policy_tolerance[] = {0, 1e-4f, 1e-3f, 1e-2f};

enum { MOST_VALUES = 16 };
typedef struct grid {
    int count[AXES];
    int64_t value[AXES][MOST_VALUES];
} grid;

typedef struct bench_case {
    const struct suite *suite;
    const struct variant *variant; /* of --tune and --ablate; NULL: attn.h as it is */
    int64_t v[AXES];
    double mask_bytes; /* of a mask that is a file; 0: a byte for every query and key */
    bool keys_given;   /* not as many as queries by default */
    char name[128];
} bench_case;

/* attn.h with other tile sizes, or with an optimization turned off. `group`: the studies that it
 * belongs to; that of a suite's name is attn.h as it is, to which the others are compared. */
typedef struct variant {
    const char *group, *name;
    int when;
    struct attn__tuning tuning;
} variant;

/* The word of a value, or NULL for a number. */
static const char *axis_word(axis a, int64_t value, char buffer[32]) {
    const char *s = axes[a].words;
    for (int64_t i = a == DIM ? FILL : 0; s && i < value; i++)
        s = strchr(s, '|') ? strchr(s, '|') + 1 : NULL;
    if (!s || !*s || *s == '|' || value < 0) return NULL;
    snprintf(buffer, 32, "%.*s", (int)strcspn(s, "|"), s);
    return buffer;
}

/* Its words as text: numbers in between that have none are left out. */
static const char *axis_words(axis a, char text[128]) {
    size_t n = 0;
    for (const char *s = axes[a].words; *s; s++)
        if ((*s != '|' || s[1] != '|') && n < 127) text[n++] = *s;
    text[n] = 0;
    return text;
}

static bool parse_integer(const char *s, int64_t *value) {
    char *end;
    errno = 0;
    long long n = strtoll(s, &end, 10);
    *value = n;
    return end != s && !*end && !errno && !isspace((unsigned char)*s);
}

/* One value of an axis; with its limits in `limits` where it is not one. */
static bool parse_value(axis a, const char *s, int64_t *value, char limits[128]) {
    char word[32], text[128];
    bool named = axes[a].words != NULL;
    if (a == DIM) {
        named = !strcmp(s, "seq");
        *value = FILL;
        if (named) return true;
    } else if (named) {
        for (int64_t i = 0; i <= axes[a].most; i++)
            if (axis_word(a, i, word) && !strcmp(word, s)) {
                *value = i;
                return true;
            }
        snprintf(limits, 128, "must be one of %.100s", axis_words(a, text));
        return false;
    }
    int64_t least = a == DIM ? 1 : axes[a].least;
    if (parse_integer(s, value) && *value >= least && *value <= axes[a].most) return true;
    snprintf(limits, 128, "must be an integer in [%lld, %lld]", (long long)least,
        (long long)axes[a].most);
    return false;
}

/* Copies the first item of "a,b,c"; returns the others, NULL after the last. */
static const char *take_item(const char *list, char *item, size_t size) {
    size_t length = strcspn(list, ",");
    snprintf(item, size, "%.*s", (int)length, list);
    return list[length] ? list + length + 1 : NULL;
}

/* Whether a list has an item. */
static bool listed(const char *list, const char *name) {
    char item[64];
    while (list) {
        list = take_item(list, item, sizeof item);
        if (!strcmp(item, name)) return true;
    }
    return false;
}

/* "128,256,512" as the values of one axis. */
static bool parse_values(axis a, const char *list, grid *g, char limits[128]) {
    char item[64];
    g->count[a] = 0;
    while (list) {
        if (strcspn(list, ",") >= sizeof item) {
            snprintf(limits, 128, "a value has at most %d characters", (int)sizeof item - 1);
            return false;
        }
        list = take_item(list, item, sizeof item);
        if (g->count[a] == MOST_VALUES) {
            snprintf(limits, 128, "takes at most %d values", MOST_VALUES);
            return false;
        }
        if (!parse_value(a, item, &g->value[a][g->count[a]++], limits)) return false;
    }
    return true;
}

static int find_axis(const char *name) {
    int a = 0;
    while (a < AXES && strcmp(axes[a].name, name)) a++;
    return a;
}

/* A line of a suite: "seq-len=128,256 head-dim=64 ..."; the axes not named have their default. */
static grid parse_line(const char *line) {
    grid g;
    char name[32], list[128], limits[128];
    int used;
    for (int a = 0; a < AXES; a++) {
        g.count[a] = 1;
        g.value[a][0] = axes[a].normal;
    }
    for (; sscanf(line, " %31[^=]=%127s%n", name, list, &used) == 2; line += used) {
        int a = find_axis(name);
        if (a == AXES || !parse_values((axis)a, list, &g, limits)) {
            refuse("suite table: %s=%s", name, list);
            exit(EXIT_BAD);
        }
    }
    return g;
}

#ifdef ATTN_MPI
static int64_t all_threads(void); /* those of a rank: >>ranks */
#else
static int64_t all_threads(void) { return attn_threads(); }
#endif

/* Fills what follows from other axes. Returns NULL, or what contradicts what; of two axes the one
 * that `user` gave is named, the first where both are. */
static const char *resolve_case(bench_case *c, const grid *user, char text[128]) {
    int64_t *v = c->v;
    const int64_t embed = v[EMBED], heads = v[HEADS];
    v[DIM] = embed ? embed / heads : v[DIM];
    c->keys_given = v[KV] != 0;
    v[KV] = v[KV] ? v[KV] : v[SEQ];
    v[KV_HEADS] = v[KV_HEADS] ? v[KV_HEADS] : heads;
    v[DIM] = v[DIM] == FILL ? v[SEQ] : v[DIM];
    v[V_DIM] = v[V_DIM] ? v[V_DIM] : v[DIM];
    v[KV_DTYPE] = v[KV_DTYPE] == FILL ? v[DTYPE] : v[KV_DTYPE];
    v[THREADS] = v[THREADS] ? v[THREADS] : all_threads();
    *text = 0;
#define FIRST(a, b) (user->count[a] || !user->count[b])
#define SAY(...) snprintf(text, 128, __VA_ARGS__)
    const bool quantised = !attn__is_float((int32_t)v[KV_DTYPE]);
    char type[32];
    axis_word(KV_DTYPE, v[KV_DTYPE], type);
    if (embed && embed % heads && FIRST(EMBED, HEADS))
        SAY("--embed-dim %lld: must be a multiple of --num-heads %lld", (long long)embed,
            (long long)heads);
    else if (embed && embed % heads)
        SAY("--num-heads %lld: must divide --embed-dim %lld", (long long)heads, (long long)embed);
    else if (heads % v[KV_HEADS] && FIRST(KV_HEADS, HEADS))
        SAY("--num-kv-heads %lld: must divide --num-heads %lld", (long long)v[KV_HEADS],
            (long long)heads);
    else if (heads % v[KV_HEADS])
        SAY("--num-heads %lld: must be a multiple of --num-kv-heads %lld", (long long)heads,
            (long long)v[KV_HEADS]);
    else if (v[PASS] != FWD && v[PAGE])
        SAY(FIRST(PASS, PAGE) ? "--backward: not defined for --page-size"
                              : "--page-size: not in cases with a backward");
    else if (v[PASS] != FWD && quantised && FIRST(PASS, KV_DTYPE))
        SAY("--backward: not defined for a quantised --kv-dtype");
    else if (v[PASS] != FWD && quantised) SAY("--kv-dtype %s: not in cases with a backward", type);
    else if (v[PASS] != FWD && v[APPEND]) SAY("--backward: not defined for cases that append");
    else if (v[DIM] > 1 << 16) SAY("head-dim %lld: is above 65536", (long long)v[DIM]);
    else if (v[KV_DTYPE] == ATTN_INT16 && v[APPEND])
        /* its copy as f32, which the verification reads, is made before the call */
        SAY("--kv-dtype int16: not in cases that append");
    else if (attn__is_blocks((int32_t)v[KV_DTYPE]) && (v[DIM] | v[V_DIM]) % 32)
        SAY("--kv-dtype q8_0 and q4_0: dims are multiples of 32");
    else if (v[LAYOUT] && v[PAGE] && FIRST(PAGE, LAYOUT))
        SAY("--page-size: not with --layout bhsd, a page is [page_size, heads, dim]");
    else if (v[LAYOUT] && v[PAGE]) SAY("--layout bhsd: not in cases with pages");
#undef SAY
#undef FIRST
    return *text ? text : NULL;
}

/* The name tells the cases of a suite apart; dtype, pass and threads have columns of their own. */
static void name_case(bench_case *c) {
    const int64_t *v = c->v;
    char word[32], *p = c->name, *end = c->name + sizeof c->name;
#define ADD(...) (p += snprintf(p, (size_t)(end - p), __VA_ARGS__), p = p < end ? p : end - 1)
    if (v[MEASURE] != TIME) ADD("%s ", axis_word(MEASURE, v[MEASURE], word));
    ADD("B%lld S%lld", (long long)v[BATCH], (long long)v[SEQ]);
    if (v[KV] != v[SEQ]) ADD(":%lld", (long long)v[KV]);
    ADD(" H%lld", (long long)v[HEADS]);
    if (v[KV_HEADS] != v[HEADS]) ADD("/%lld", (long long)v[KV_HEADS]);
    ADD(" D%lld", (long long)v[DIM]);
    if (v[V_DIM] != v[DIM]) ADD("/%lld", (long long)v[V_DIM]);
    if (v[CAUSAL]) ADD(" causal");
    if (v[LEFT] >= 0 || v[RIGHT] >= 0)
        ADD(" window %lld,%lld", (long long)v[LEFT], (long long)v[RIGHT]);
    if (v[MASK]) ADD(" mask %s", axis_word(MASK, v[MASK], word));
    if (v[LAYOUT]) ADD(" bhsd");
    if (v[PAGE]) ADD(" page %lld", (long long)v[PAGE]);
    if (v[APPEND]) ADD(" append");
    if (v[PROJECT]) ADD(" projections");
    if (v[POLICY]) ADD(" %s", axis_word(POLICY, v[POLICY], word));
    if (v[DATA] != RANDOM) ADD(" %s", axis_word(DATA, v[DATA], word));
    if (v[COLD]) ADD(" cold");
    if (c->variant) ADD(" %s", c->variant->name);
#undef ADD
}

/* ================================================================================ >>suites ==== */
typedef struct bench bench;
typedef struct suite suite;
typedef enum judgement { NOT_JUDGED, REACHED, NOT_REACHED } judgement;
struct suite {
    const char *name, *help, *backends; /* backends: the selection without --backend */
    const char *columns;                /* of the markdown format; csv and json have every key */
    const char *brief;                  /* of the table, in 100 characters; NULL: BRIEF */
    const char *modes;                  /* the selection of its cases with a policy */
    const char *their_flops; /* how that system counts a forward, where it does, and not as here */
    bool scales;             /* its rows are compared over threads and batch */
    bool no_exponents;       /* its lengths are not there for a power law */
    bool brief_warmup;       /* as many untimed calls as timed ones at most, but for --warmup */
    bool over_ranks;         /* its cases are calls over all ranks */
    bool wants_gpu;          /* it has a table CPU against GPU, and says why that is missing */
    /* What it concludes from its rows, printed after them; NULL: nothing of its own. */
    void (*conclude)(FILE *, const bench *, const suite *);
    /* Its verdict: the exit code is 1 where it is not reached; NULL: it has none. */
    judgement (*judge)(const bench *, const suite *);
};

/* What some suites conclude: >>derive. */
static void conclude_openpi(FILE *, const bench *, const suite *);
static judgement judge_openpi(const bench *, const suite *);
static void conclude_guide(FILE *, const bench *, const suite *);
static void print_guide_scaling(FILE *, const bench *, const suite *);
static void conclude_adaattn(FILE *, const bench *, const suite *);
#ifdef ATTN_MPI
static void conclude_ranks(FILE *, const bench *, const suite *);
#endif

#define BRIEF \
    "case,backend,pass,iterations,p50_ms,gflops,peak_fraction,speedup_vs_standard,ratio,status"
#define VARIED \
    "case,dtype,pass,threads,iterations,p50_ms,p95_ms,gflops,peak_fraction,workspace_bytes," \
    "speedup_vs_default,max_abs_err,rows_verified,status"
#define VARIED_BRIEF "case,pass,iterations,p50_ms,gflops,peak_fraction,speedup_vs_default,status"
/* A suite is a row here and some lines below; where its system published figures, a row for each of
 * them. The first is run where none is named. */
static const suite suites[] = {
    {.name = "rocmforge",
        .help = "ROCmForge: one head, seq = dim, then a sweep; time to first token",
        .backends = "standard,reference,flash",
        .columns =
            "case,backend,pass,iterations,p50_ms,min_ms,max_ms,p95_ms,p99_ms,total_ms,overhead_ms,"
            "ttft_ms,ops_per_s,tokens_per_s,gflops,peak_fraction,bandwidth_fraction,"
            "speedup_vs_standard,device_bytes,max_abs_err,theirs,their_tokens_per_s,ratio,status",
        .no_exponents = true,
        .brief_warmup = true,
        .wants_gpu = true},
    {.name = "openpi",
        .help = "openpi phase 1: f16, causal, head_dim 256; gemma and gemma_fast modules; a "
                "verdict",
        .backends = "standard,flash",
        .columns =
            "case,backend,iterations,p50_ms,p95_ms,ttft_ms,tokens_per_s,peak_fraction,"
            "peak_rss_bytes,workspace_bytes,time_exponent,memory_exponent,speedup_vs_standard,"
            "memory_reduction,memory_factor,device_bytes,max_abs_err,status",
        .brief = "case,backend,iterations,p50_ms,peak_fraction,workspace_bytes,"
                 "speedup_vs_standard,memory_factor,status",
        .their_flops = "B*H*S^2*(2*D + 3)",
        .conclude = conclude_openpi,
        .judge = judge_openpi},
    {.name = "flash_v2",
        .help = "Flash Attention v2 guide: standard against flash, forward, backward, memory, "
                "scaling",
        .backends = "standard,flash",
        .columns =
            "case,backend,pass,threads,iterations,p50_ms,total_ms,gflops,gbytes_per_s,"
            "bandwidth_fraction,workspace_bytes,theoretical_bytes,memory_exponent,"
            "speedup_vs_standard,memory_reduction,memory_factor,device_bytes,max_abs_err,theirs,"
            "ratio,status",
        .their_flops = "2*B*S^2*H*D",
        .scales = true,
        .conclude = conclude_guide},
    {.name = "adaattn",
        .help = "AdaAttn: dense, precision, rank; forward, backward, total; projections",
        .backends = "standard,flash",
        .columns = "case,backend,kernel,pass,iterations,p50_ms,p95_ms,tokens_per_s,gflops,"
                   "workspace_bytes,memory_factor,speedup_vs_standard,max_abs_err,max_cert,theirs,"
                   "their_tokens_per_s,ratio,status",
        .brief = "case,backend,pass,iterations,p50_ms,speedup_vs_standard,max_abs_err,max_cert,"
                 "ratio,status",
        .modes = "flash,precision,rank",
        .their_flops = "B*H*S^2*(4*D + 5)",
        .conclude = conclude_adaattn},
    {.name = "decode",
        .help = "one-token steps against a KV cache; time to first token",
        .backends = "standard,flash",
        .columns = "case,backend,dtype,kv_dtype,iterations,p50_ms,p95_ms,ttft_ms,tokens_per_s,"
                   "gbytes_per_s,bandwidth_fraction,speedup_vs_standard,max_abs_err,status",
        .brief = "case,backend,iterations,p50_ms,gbytes_per_s,bandwidth_fraction,"
                 "speedup_vs_standard,status"},
    {.name = "memory",
        .help = "peak bytes, theoretical against actual, exponents over S, crossover",
        .backends = "standard,flash",
        .columns =
            "case,backend,iterations,p50_ms,workspace_bytes,theoretical_bytes,peak_rss_bytes,"
            "matrix_share,time_exponent,memory_exponent,speedup_vs_standard,memory_reduction,"
            "memory_factor,device_bytes,status",
        .brief = "case,backend,iterations,p50_ms,workspace_bytes,peak_rss_bytes,"
                 "speedup_vs_standard,memory_factor,status"},
#ifdef ATTN_MPI
    {.name = "scaling",
        .help = "over ranks: time, work, messages, what of them is hidden, imbalance; a model",
        .backends = "ring,zigzag,ulysses,decode",
        .columns = "case,backend,dtype,pass,ranks,threads,kernel,iterations,p50_ms,work_ms,comm_ms,"
                   "hidden,imbalance,pairs_imbalance,sent_bytes,gflops,model_ms,max_abs_err,status",
        .brief = "case,backend,pass,ranks,p50_ms,work_ms,comm_ms,hidden,imbalance,sent_bytes,"
                 "model_ms,status",
        .no_exponents = true,
        .over_ranks = true,
        .conclude = conclude_ranks},
#else
    {.name = "scaling",
        .help = "strong and weak scaling over threads, scaling over the batch, every length from "
                "1 on",
        .backends = "standard,flash",
        .columns =
            "case,backend,dtype,pass,threads,iterations,p50_ms,p95_ms,p99_ms,tokens_per_s,gflops,"
            "peak_fraction,efficiency,speedup_vs_standard,max_abs_err,status",
        .brief = "case,backend,iterations,p50_ms,gflops,peak_fraction,efficiency,"
                 "speedup_vs_standard,status",
        .scales = true,
        .conclude = print_guide_scaling},
#endif
    {.name = "correctness",
        .help = "a verdict per property of every backend",
        .backends = "standard,reference,flash",
        .columns = "case,backend,dtype,pass,rows_verified,max_abs_err,status",
        .brief = "case,backend,pass,rows_verified,max_abs_err,status"},
    {.name = "shape",
        .help = "one case, from the shape flags, four numbers, or --input",
        .backends = "standard,flash",
        .columns = "case,backend,dtype,pass,iterations,p50_ms,p95_ms,p99_ms,kernel_ms,total_ms,"
                   "tokens_per_s,gflops,peak_fraction,speedup_vs_standard,device_bytes,max_abs_err,"
                   "rows_verified,status",
        .brief = "case,backend,pass,iterations,p50_ms,total_ms,gflops,peak_fraction,"
                 "speedup_vs_standard,status"},
    {.name = "tune",
        .help = "--tune: a table of tile sizes, against those that attn.h takes",
        .backends = "flash",
        .columns = VARIED,
        .brief = VARIED_BRIEF},
    {.name = "ablate",
        .help = "--ablate: each optimization turned off in turn, against everything on",
        .backends = "flash",
        .columns = VARIED,
        .brief = VARIED_BRIEF},
};

/* When a line is run: by the default selection, by --quick, or by the whole suite. */
enum { DEFAULT = 1, QUICK = 2, WHOLE = 4 };
#define SHORT " warmup=10 iterations=100" /* a call of microseconds needs more of them */
static const struct {
    const char *suite;
    int when;
    const char *module, *axes;
} lines[] = {
    {"rocmforge", DEFAULT | QUICK | WHOLE, NULL,
        "seq-len=32,64,128,256,512 head-dim=seq num-heads=1 data=smooth warmup=10 iterations=100"},
    {"rocmforge", DEFAULT, NULL,
        "seq-len=256,1024 head-dim=64 num-heads=1 causal=0,1 warmup=10 iterations=100"},
    {"rocmforge", DEFAULT, NULL,
        "seq-len=256 head-dim=128 num-heads=1 batch-size=4 warmup=10 iterations=100"},
    {"rocmforge", WHOLE, NULL,
        "seq-len=128,256,512,1024,2048 head-dim=32,64,128 num-heads=1 "
        "causal=0,1 batch-size=1,4 warmup=10 iterations=100"},
    {"rocmforge", WHOLE, NULL,
        "seq-len=512 head-dim=64 num-heads=1 data=smooth,peaked warmup=10 iterations=100"},
    {"rocmforge", WHOLE, NULL,
        "seq-len=512 head-dim=64 num-heads=1 mask=random warmup=10 iterations=100"},
    {"rocmforge", DEFAULT, NULL,
        "measure=generate seq-len=1 kv-len=128,512 head-dim=64 num-heads=1 "
        "causal=1 warmup=10 iterations=100"},
    {"rocmforge", WHOLE, NULL,
        "measure=generate seq-len=1 kv-len=128,512,2048 head-dim=64 "
        "num-heads=1 causal=1 warmup=10 iterations=100"},

    {"openpi", QUICK, NULL,
        "seq-len=512,1024 batch-size=1,4 num-heads=32 num-kv-heads=32,8 "
        "head-dim=256 causal=1 dtype=f16 warmup=3 iterations=10"},
    {"openpi", WHOLE, NULL,
        "seq-len=512,1024,2048,4096,8192 batch-size=1,4,8,16 num-heads=32 "
        "num-kv-heads=32,8 head-dim=256 causal=1 dtype=f16 warmup=3 iterations=10"},
    {"openpi", QUICK | WHOLE, NULL,
        "measure=memory seq-len=512,1024,2048 num-heads=32 num-kv-heads=32,8 "
        "head-dim=256 causal=1 dtype=f16"},
    {"openpi", WHOLE, NULL,
        "measure=memory seq-len=4096,8192 num-heads=32 num-kv-heads=32,8 "
        "head-dim=256 causal=1 dtype=f16"},
    {"openpi", QUICK | WHOLE, NULL,
        "measure=determinism,finite,loss seq-len=256 num-heads=8 "
        "num-kv-heads=8,2 head-dim=256 causal=1 dtype=f16 data=tenth,random,tenfold"},
    {"openpi", QUICK | WHOLE, NULL,
        "measure=gradient seq-len=24 num-heads=4 num-kv-heads=2 head-dim=64 causal=1 pass=fwd+bwd"},
    {"openpi", QUICK | WHOLE, "gemma",
        "seq-len=512,1024 num-heads=8 num-kv-heads=1 head-dim=256 "
        "mask=blocks dtype=f16 warmup=3 iterations=10"},
    {"openpi", QUICK | WHOLE, "gemma_fast",
        "measure=generate seq-len=1 kv-len=512,1024 num-heads=8 "
        "num-kv-heads=1 head-dim=256 causal=1 append=1 dtype=f16 warmup=3 iterations=10"},

    {"flash_v2", QUICK | WHOLE, NULL,
        "seq-len=32 num-heads=4 head-dim=16 dtype=f16 pass=fwd,bwd,fwd+bwd"},
    {"flash_v2", QUICK | WHOLE, NULL,
        "seq-len=64 num-heads=8 head-dim=32 dtype=f16 pass=fwd,bwd,fwd+bwd"},
    {"flash_v2", QUICK | WHOLE, NULL,
        "batch-size=2 seq-len=128 num-heads=8 head-dim=32 dtype=f16 pass=fwd,bwd,fwd+bwd"},
    {"flash_v2", QUICK | WHOLE, NULL,
        "batch-size=4 seq-len=256 num-heads=16 head-dim=64 dtype=f16 pass=fwd,bwd,fwd+bwd"},
    {"flash_v2", QUICK | WHOLE, NULL,
        "batch-size=8 seq-len=512 num-heads=16 head-dim=64 dtype=f16 "
        "pass=fwd,bwd,fwd+bwd iterations=5"},
    {"flash_v2", WHOLE, NULL,
        "batch-size=16 seq-len=512 num-heads=32 head-dim=64 dtype=f16 "
        "pass=fwd,bwd,fwd+bwd warmup=1 iterations=5"},
    {"flash_v2", WHOLE, NULL,
        "batch-size=32 seq-len=1024 num-heads=32 head-dim=128 dtype=f16 "
        "pass=fwd,bwd,fwd+bwd warmup=0 iterations=3"},
    {"flash_v2", WHOLE, NULL,
        "batch-size=64 seq-len=1024 num-heads=64 head-dim=128 dtype=f16 "
        "pass=fwd,bwd,fwd+bwd warmup=0 iterations=3"},
    {"flash_v2", QUICK | WHOLE, NULL, "seq-len=1024 num-heads=25 head-dim=64 iterations=10"},
    {"flash_v2", QUICK | WHOLE, NULL,
        "measure=memory seq-len=64,128,256,512,1024,2048 num-heads=32 head-dim=64 dtype=f16"},
    {"flash_v2", QUICK | WHOLE, NULL,
        "measure=determinism,loss batch-size=2 seq-len=128 num-heads=8 head-dim=32 dtype=f16"},
    {"flash_v2", QUICK | WHOLE, NULL,
        "threads=1 batch-size=1 seq-len=256 num-heads=8 head-dim=64 dtype=f16"},
    {"flash_v2", QUICK | WHOLE, NULL,
        "threads=2 batch-size=2 seq-len=256 num-heads=8 head-dim=64 dtype=f16"},
    {"flash_v2", QUICK | WHOLE, NULL,
        "threads=4 batch-size=4 seq-len=256 num-heads=8 head-dim=64 dtype=f16"},
    {"flash_v2", QUICK | WHOLE, NULL,
        "threads=8 batch-size=8 seq-len=256 num-heads=8 head-dim=64 dtype=f16"},
    {"flash_v2", QUICK | WHOLE, NULL,
        "batch-size=1,2,4,8,16 seq-len=256 num-heads=8 head-dim=64 dtype=f16"},
    {"flash_v2", QUICK | WHOLE, NULL,
        "threads=1,2,4,8,16,32,64,128 seq-len=512 num-heads=8 head-dim=64 dtype=f16"},

    {"adaattn", QUICK | WHOLE, NULL,
        "embed-dim=512 num-heads=8 batch-size=2 seq-len=128 "
        "pass=fwd,bwd,fwd+bwd warmup=10 iterations=20"},
    {"adaattn", QUICK | WHOLE, NULL,
        "measure=module embed-dim=512 num-heads=8 batch-size=2 seq-len=128 "
        "project=1 pass=fwd,bwd,fwd+bwd warmup=3 iterations=20"},
    {"adaattn", WHOLE, NULL,
        "embed-dim=512 num-heads=8 batch-size=8 seq-len=512 pass=fwd,bwd,fwd+bwd "
        "warmup=10 iterations=100"},
    {"adaattn", WHOLE, NULL,
        "measure=module embed-dim=512 num-heads=8 batch-size=8 seq-len=512 "
        "project=1 pass=fwd,bwd,fwd+bwd warmup=10 iterations=100"},
    {"adaattn", QUICK | WHOLE, NULL,
        "measure=memory embed-dim=512 num-heads=8 batch-size=2 seq-len=128"},
    {"adaattn", QUICK | WHOLE, NULL,
        "embed-dim=512 num-heads=8 batch-size=2 seq-len=128 policy=quality,balanced,speed "
        "warmup=10 iterations=20"},
    {"adaattn", QUICK, NULL,
        "embed-dim=512 num-heads=8 batch-size=2 seq-len=128 pass=fwd+bwd policy=speed warmup=10 "
        "iterations=20"},
    {"adaattn", WHOLE, NULL,
        "embed-dim=512 num-heads=8 batch-size=2 seq-len=128 pass=fwd+bwd "
        "policy=quality,balanced,speed warmup=10 iterations=20"},
    {"adaattn", QUICK, NULL,
        "measure=module embed-dim=512 num-heads=8 batch-size=2 seq-len=128 project=1 "
        "pass=fwd,fwd+bwd policy=speed warmup=3 iterations=20"},
    {"adaattn", WHOLE, NULL,
        "measure=module embed-dim=512 num-heads=8 batch-size=2 seq-len=128 project=1 "
        "pass=fwd,fwd+bwd policy=quality,balanced,speed warmup=3 iterations=20"},
    {"adaattn", WHOLE, NULL,
        "embed-dim=512 num-heads=8 batch-size=8 seq-len=512 pass=fwd,fwd+bwd "
        "policy=quality,balanced,speed iterations=10"},
    {"adaattn", WHOLE, NULL,
        "measure=module embed-dim=512 num-heads=8 batch-size=8 seq-len=512 project=1 "
        "pass=fwd,fwd+bwd policy=quality,balanced,speed iterations=10"},
    {"adaattn", QUICK | WHOLE, NULL,
        "embed-dim=512 num-heads=8 seq-len=2048 policy=quality,balanced,speed iterations=10"},
    {"adaattn", WHOLE, NULL,
        "embed-dim=512 num-heads=8 seq-len=2048 policy=speed data=smooth iterations=10"},
    {"adaattn", QUICK | WHOLE, NULL,
        "measure=metrics embed-dim=512 num-heads=8 batch-size=2 seq-len=128 policy=speed"},
    {"adaattn", WHOLE, NULL,
        "measure=metrics embed-dim=512 num-heads=8 batch-size=8 seq-len=512 policy=speed"},

    {"decode", QUICK | WHOLE, NULL,
        "measure=generate seq-len=1 kv-len=512,2048 num-heads=32 num-kv-heads=8 "
        "head-dim=128 causal=1 dtype=f32 kv-dtype=f32,f16,int8,fp8 page-size=0,16"},
    {"decode", QUICK | WHOLE, NULL,
        "measure=generate seq-len=1 kv-len=512,2048 num-heads=32 num-kv-heads=8 "
        "head-dim=128 causal=1 dtype=f16 page-size=0,16"},
    {"decode", QUICK | WHOLE, NULL,
        "measure=generate seq-len=1 kv-len=512,2048 num-heads=32 num-kv-heads=8 "
        "head-dim=128 causal=1 dtype=bf16 page-size=0,16"},
    {"decode", WHOLE, NULL,
        "measure=generate seq-len=1 kv-len=8192,32768 num-heads=32 num-kv-heads=8 "
        "head-dim=128 causal=1 dtype=f32 kv-dtype=f32,f16,int8,fp8 page-size=0,16"},
    {"decode", WHOLE, NULL,
        "measure=generate seq-len=1 kv-len=8192,32768 num-heads=32 num-kv-heads=8 "
        "head-dim=128 causal=1 dtype=f16 page-size=0,16"},
    {"decode", WHOLE, NULL,
        "measure=generate seq-len=1 kv-len=8192,32768 num-heads=32 num-kv-heads=8 "
        "head-dim=128 causal=1 dtype=bf16 page-size=0,16"},

    {"memory", QUICK | WHOLE, NULL, "measure=memory seq-len=256,512,1024,2048 pass=fwd"},
    {"memory", WHOLE, NULL, "measure=memory seq-len=4096,8192 pass=fwd"},
    {"memory", QUICK | WHOLE, NULL, "seq-len=16,32,64,128,256,512,1024,2048 iterations=10"},
    {"memory", WHOLE, NULL, "seq-len=4096,8192 iterations=5"},

#ifdef ATTN_MPI
    {"scaling", QUICK, NULL, "measure=ranks seq-len=1024 causal=0,1 pass=fwd,bwd iterations=5"},
    {"scaling", QUICK, NULL, "measure=ranks seq-len=1 kv-len=16384 iterations=20"},
    {"scaling", WHOLE, NULL, "measure=ranks seq-len=1024,4096 causal=0,1 pass=fwd,bwd"},
    {"scaling", WHOLE, NULL, "measure=ranks seq-len=1 kv-len=16384,131072 dtype=f32,bf16"},
    {"scaling", QUICK | WHOLE, NULL,
        "measure=model seq-len=1048576,16777216 num-heads=32 num-kv-heads=8 head-dim=128 "
        "dtype=bf16 causal=0,1"},
    {"scaling", QUICK | WHOLE, NULL,
        "measure=model seq-len=1 kv-len=1048576,16777216 num-heads=32 num-kv-heads=8 head-dim=128 "
        "dtype=bf16"},
#else
    {"scaling", QUICK | WHOLE, NULL, "threads=1,2,3,4,6,8,12,16,24,32,48,64,96,128 seq-len=1024"},
    {"scaling", QUICK | WHOLE, NULL, "threads=1 batch-size=1 seq-len=512"},
    {"scaling", QUICK | WHOLE, NULL, "threads=2 batch-size=2 seq-len=512"},
    {"scaling", QUICK | WHOLE, NULL, "threads=4 batch-size=4 seq-len=512"},
    {"scaling", QUICK | WHOLE, NULL, "threads=8 batch-size=8 seq-len=512"},
    {"scaling", QUICK | WHOLE, NULL, "threads=16 batch-size=16 seq-len=512"},
    {"scaling", QUICK | WHOLE, NULL, "threads=32 batch-size=32 seq-len=512"},
    {"scaling", QUICK | WHOLE, NULL, "threads=64 batch-size=64 seq-len=512"},
    {"scaling", QUICK | WHOLE, NULL, "batch-size=1,2,4,8,16 seq-len=256"},
    {"scaling", QUICK, NULL, "seq-len=1,2,3,4,5,6,7,8,10,12,14,16,20,24,28,32" SHORT},
    {"scaling", QUICK, NULL, "seq-len=40,48,56,64" SHORT},
    {"scaling", WHOLE, NULL, "seq-len=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16" SHORT},
    {"scaling", WHOLE, NULL, "seq-len=17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32" SHORT},
    {"scaling", WHOLE, NULL, "seq-len=33,34,35,36,37,38,39,40,41,42,43,44,45,46,47,48" SHORT},
    {"scaling", WHOLE, NULL, "seq-len=49,50,51,52,53,54,55,56,57,58,59,60,61,62,63,64" SHORT},
    {"scaling", QUICK | WHOLE, NULL, "seq-len=80,96,112,128,160,192,224,256,320,384,448,512" SHORT},
    {"scaling", QUICK | WHOLE, NULL, "seq-len=640,768,1024,1536,2048"},
#endif

    {"correctness", QUICK | WHOLE, NULL,
        "measure=determinism,thread-count,batching batch-size=2 "
        "seq-len=193 num-kv-heads=2 causal=0,1 dtype=f32,f16,bf16"},
    {"correctness", QUICK | WHOLE, NULL,
        "measure=determinism,thread-count seq-len=129 num-heads=4 head-dim=32 pass=bwd"},
    {"correctness", QUICK | WHOLE, NULL,
        "measure=finite seq-len=128 num-heads=4 data=tenth,random,tenfold dtype=f32,f16,bf16"},
    {"correctness", QUICK | WHOLE, NULL,
        "measure=finite seq-len=64 num-heads=2 pass=fwd+bwd data=tenth,random,tenfold"},
    {"correctness", QUICK | WHOLE, NULL,
        "measure=loss seq-len=256 num-heads=4 causal=0,1 dtype=f32,f16,bf16"},
    {"correctness", QUICK | WHOLE, NULL, "measure=loss seq-len=256 num-heads=4 data=smooth,peaked"},
    {"correctness", QUICK | WHOLE, NULL, "measure=loss seq-len=200 num-heads=4 mask=random"},
    {"correctness", QUICK | WHOLE, NULL,
        "measure=loss seq-len=200 num-heads=4 window-left=31 window-right=0"},
    {"correctness", QUICK | WHOLE, NULL,
        "measure=gradient seq-len=24 num-heads=4 num-kv-heads=2 "
        "head-dim=16 causal=0,1 pass=fwd+bwd"},
    {"correctness", WHOLE, NULL,
        "measure=loss seq-len=1,7,64,511,1024 kv-len=1024 num-heads=2 head-dim=40,128 causal=1"},
};

/* The cases of --tune and --ablate. Each is run as it is, then with the variants of its group. */
static const struct {
    const char *suite;
    int when;
    const char *group, *axes;
} studies[] = {
    {"tune", DEFAULT, "tiles", "seq-len=1024 head-dim=64,128 num-heads=2 iterations=10"},
    {"tune", QUICK, "tiles", "seq-len=1024 head-dim=64 num-heads=2 iterations=10"},
    {"tune", DEFAULT, "blocks", "seq-len=1024 head-dim=64,128 num-heads=2 pass=bwd iterations=10"},
    {"tune", QUICK, "blocks", "seq-len=1024 head-dim=64 num-heads=2 pass=bwd iterations=10"},
    {"ablate", DEFAULT, "forward", "seq-len=1024 head-dim=64,128 num-heads=4 iterations=20"},
    {"ablate", QUICK, "forward", "seq-len=1024 head-dim=64 num-heads=2 iterations=20"},
    {"ablate", DEFAULT, "bf16",
        "seq-len=1024 head-dim=64,128 num-heads=4 dtype=bf16 iterations=20"},
    {"ablate", DEFAULT, "bf16",
        "seq-len=1024 head-dim=64,128 num-heads=4 dtype=bf16 pass=bwd iterations=20"},
    {"ablate", DEFAULT | QUICK, "splits",
        "seq-len=16 kv-len=16384 head-dim=64 num-heads=1 iterations=100"},
    {"ablate", DEFAULT | QUICK, "flush",
        "seq-len=512 head-dim=64 num-heads=4 data=steep iterations=20"},
    {"ablate", DEFAULT, "backward",
        "seq-len=1024 head-dim=64,128 num-heads=2 pass=bwd iterations=10"},
    {"ablate", QUICK, "backward", "seq-len=1024 head-dim=64 num-heads=2 pass=bwd iterations=10"},
};

/* clang-format off */
static const variant variants[] = {
#define TILE(when, bm, bn) { "tiles", "BM " #bm " BN " #bn, when, { .BM = bm, .BN = bn } }
#define TILES(when, bm) \
    TILE(DEFAULT, bm, 128), TILE(when, bm, 256), TILE(when, bm, 512), TILE(DEFAULT, bm, 1024)
#define BLOCK(group, when, bk) { group, "BK " #bk, when, { .BK = bk } }
    { "tune", "default tiles", DEFAULT|QUICK, { 0 } },
    TILES(DEFAULT|QUICK, 96), TILES(DEFAULT, 192), TILES(DEFAULT|QUICK, 480), TILES(DEFAULT, 1008),
    BLOCK("blocks", DEFAULT|QUICK, 64), BLOCK("blocks", DEFAULT, 128),
    BLOCK("blocks", DEFAULT|QUICK, 256),
    { "ablate", "everything on", DEFAULT|QUICK, { 0 } },
    { "forward", "V in place", DEFAULT|QUICK, { .v_in_place = 1 } },
    { "forward", "BM 96", DEFAULT|QUICK, { .BM = 96 } },
    { "forward", "BN 64", DEFAULT|QUICK, { .BN = 64 } },
    { "forward", "BN 128", DEFAULT|QUICK, { .BN = 128 } },
    { "bf16", "bf16 as f32", DEFAULT, { .no_bf16 = 1 } },
    { "splits", "no key splits", DEFAULT|QUICK, { .no_splits = 1 } },
    { "flush", "no flush to zero", DEFAULT|QUICK, { .no_flush = 1 } },
    BLOCK("backward", DEFAULT|QUICK, 64),
#undef TILE
#undef TILES
#undef BLOCK
};
/* clang-format on */

/* What the five systems published: ms and, where they say it, tokens per second; beside ours where
 * case and backend match. `derived`: the sum of two that were published. Their AdaAttn "backward"
 * includes the forward. */
static const struct published {
    const char *suite;
    int data;
    int64_t batch, seq, heads, dim, project;
    const char *backend; /* NULL: any on the CPU */
    int pass;
    double ms, tokens_per_s;
    bool derived;
    int32_t dtype;      /* of our case that it stands beside */
    const char *figure; /* as it was published */
    const char *by;     /* of whom, where the suite is of another system */
} published[] = {
#define CPU(s, ms, figure, tokens) \
    {"rocmforge", SMOOTH, 1, s, 1, s, 0, NULL, FWD, ms, tokens, false, ATTN_F32, figure, NULL}
    CPU(32, 0.033463, "33.463 us", 956280),
    CPU(64, 0.264199, "264.199 us", 242242),
    CPU(128, 2.588, "2.588 ms", 49452),
    CPU(256, 22.293, "22.293 ms", 11484),
    CPU(512, 348.592, "348.592 ms", 1469),
#undef CPU
#define MS(b, s, h, d, backend, pass, ms, derived, type, by) \
    {"flash_v2", RANDOM, b, s, h, d, 0, backend, pass, ms, NAN, derived, type, #ms " ms", by}
#define L20(b, s, h, d, standard, flash) \
    MS(b, s, h, d, "standard", FWD, standard, false, ATTN_F16, NULL), \
        MS(b, s, h, d, "flash", FWD, flash, false, ATTN_F16, NULL), \
        MS(b, s, h, d, "hip", FWD, flash, true, ATTN_F16, NULL)
#define L20_BACKWARD(b, s, h, d, forward, backward) \
    MS(b, s, h, d, "flash", BWD, backward, false, ATTN_F16, NULL), \
        MS(b, s, h, d, "flash", FWD_BWD, (forward) + (backward), true, ATTN_F16, NULL)
    L20(1, 32, 4, 16, 0.15, 0.08),
    L20(1, 64, 8, 32, 0.42, 0.18),
    L20(2, 128, 8, 32, 1.25, 0.45),
    L20(4, 256, 16, 64, 8.32, 2.85),
    L20(8, 512, 16, 64, 32.15, 9.87),
    L20(16, 512, 32, 64, 128.42, 35.21),
    L20(32, 1024, 32, 128, 512.35, 125.67),
    L20(64, 1024, 64, 128, 2048.92, 458.23),
    L20_BACKWARD(1, 32, 4, 16, 0.08, 0.12),
    L20_BACKWARD(1, 64, 8, 32, 0.18, 0.28),
    L20_BACKWARD(2, 128, 8, 32, 0.45, 0.72),
    L20_BACKWARD(4, 256, 16, 64, 2.85, 4.58),
    L20_BACKWARD(8, 512, 16, 64, 9.87, 15.92),
#define TORCH "PyTorch's CPU flash, on a Sapphire Rapids socket,"
    MS(1, 1024, 25, 64, "standard", FWD, 3.081, false, ATTN_F32, TORCH),
    MS(1, 1024, 25, 64, "flash", FWD, 1.665, false, ATTN_F32, TORCH),
#undef TORCH
#undef L20
#undef L20_BACKWARD
#undef MS
#define DENSE(backend, pass, ms, tokens, derived) \
    {"adaattn", RANDOM, 2, 128, 8, 64, 1, backend, pass, ms, tokens, derived, ATTN_F32, #ms " ms", \
        NULL}
    DENSE("standard", FWD, 45.374, 5642, false),
    DENSE("flash", FWD, 45.374, 5642, true),
    DENSE("standard", FWD_BWD, 51.294, NAN, false),
    DENSE("flash", FWD_BWD, 51.294, NAN, true),
#undef DENSE
};

/* Memory that was published, in MB. */
static const struct {
    const char *suite;
    int64_t seq;
    double standard, flash;
} published_memory[] = {
    {"flash_v2", 64, 0.5, 0.2},
    {"flash_v2", 128, 2, 0.7},
    {"flash_v2", 256, 8, 2.5},
    {"flash_v2", 512, 32, 9.1},
    {"flash_v2", 1024, 128, 30.5},
    {"flash_v2", 2048, 512, 102.4},
};

/* =================================================================================== >>row ==== */
/* X(kind, member, key, heading). Empty text, NO_INT and NaN are null: the key has no meaning
 * for the case. */
#define NO_INT INT64_MIN
#ifdef ATTN_MPI /* bytes, work and messages: of all ranks; imbalance: the most over the mean */
#define RANKS_LIST(X) \
    X(INT, ranks, "ranks", "ranks") \
    X(INT, sent_bytes, "sent_bytes", "sent") \
    X(REAL, work_ms, "work_ms", "work") \
    X(REAL, comm_ms, "comm_ms", "messages") \
    X(REAL, hidden, "hidden", "hidden") \
    X(REAL, imbalance, "imbalance", "imbal.") \
    X(REAL, pairs_imbalance, "pairs_imbalance", "of pairs") \
    X(REAL, model_ms, "model_ms", "model")
#else
#define RANKS_LIST(X)
#endif
#define ROW_LIST(X) \
    X(TEXT, suite, "suite", "suite") \
    X(TEXT, name, "case", "case") \
    X(TEXT, backend, "backend", "backend") \
    X(TEXT, kernel, "kernel", "kernel") \
    X(TEXT, isa, "isa", "isa") \
    X(TEXT, dtype, "dtype", "dtype") \
    X(TEXT, kv_dtype, "kv_dtype", "kv") \
    X(TEXT, pass, "pass", "pass") \
    X(INT, batch, "batch", "B") \
    X(INT, q_len, "q_len", "q") \
    X(INT, kv_len, "kv_len", "kv") \
    X(INT, heads, "heads", "H") \
    X(INT, kv_heads, "kv_heads", "Hkv") \
    X(INT, head_dim, "head_dim", "D") \
    X(INT, v_dim, "v_dim", "Dv") \
    X(TRUTH, causal, "causal", "causal") \
    X(TEXT, mask, "mask", "mask") \
    X(INT, threads, "threads", "thr") \
    X(INT, seed, "seed", "seed") \
    X(INT, iterations, "iterations", "n") \
    X(REAL, first_run_ms, "first_run_ms", "first ms") \
    X(REAL, mean_ms, "mean_ms", "mean ms") \
    X(REAL, stddev_ms, "stddev_ms", "+-") \
    X(REAL, min_ms, "min_ms", "min") \
    X(REAL, max_ms, "max_ms", "max") \
    X(REAL, p50_ms, "p50_ms", "p50") \
    X(REAL, p50_low_ms, "p50_low_ms", "from") \
    X(REAL, p50_high_ms, "p50_high_ms", "to") \
    X(REAL, p95_ms, "p95_ms", "p95") \
    X(REAL, p99_ms, "p99_ms", "p99") \
    X(REAL, kernel_ms, "kernel_ms", "kernel ms") \
    X(REAL, total_ms, "total_ms", "total ms") \
    X(REAL, ttft_ms, "ttft_ms", "ttft ms") \
    X(REAL, ttft_stddev_ms, "ttft_stddev_ms", "ttft +-") \
    X(REAL, overhead_ms, "overhead_ms", "empty ms") \
    X(REAL, ops_per_s, "ops_per_s", "ops/s") \
    X(REAL, tokens_per_s, "tokens_per_s", "tok/s") \
    X(REAL, gflops, "gflops", "GFLOP/s") \
    X(REAL, gbytes_per_s, "gbytes_per_s", "GB/s") \
    X(REAL, peak_fraction, "peak_fraction", "of peak") \
    X(REAL, peak_gflops, "peak_gflops", "peak") \
    X(REAL, bandwidth_fraction, "bandwidth_fraction", "of bandw.") \
    X(REAL, bandwidth_gbs, "bandwidth_gbs", "bandw.") \
    X(TEXT, bound, "bound", "bound") \
    X(INT, workspace_bytes, "workspace_bytes", "workspace") \
    X(INT, theoretical_bytes, "theoretical_bytes", "theory") \
    X(INT, peak_rss_bytes, "peak_rss_bytes", "peak RSS") \
    X(INT, device_bytes, "device_bytes", "device") \
    X(REAL, matrix_share, "matrix_share", "of SxS") \
    X(REAL, time_exponent, "time_exponent", "t ~ S^") \
    X(REAL, memory_exponent, "memory_exponent", "mem ~ S^") \
    X(REAL, speedup_vs_standard, "speedup_vs_standard", "vs std") \
    X(REAL, speedup_vs_default, "speedup_vs_default", "vs default") \
    X(REAL, efficiency, "efficiency", "effic.") \
    X(REAL, memory_reduction, "memory_reduction", "mem saved") \
    X(REAL, memory_factor, "memory_factor", "mem x") \
    X(REAL, max_abs_err, "max_abs_err", "max err") \
    X(REAL, tolerance, "tolerance", "toler.") \
    X(REAL, max_cert, "max_cert", "max cert") \
    X(INT, rows_verified, "rows_verified", "rows") \
    X(REAL, theirs, "theirs", "published ms") \
    X(REAL, their_tokens_per_s, "their_tokens_per_s", "their tok/s") \
    X(TEXT, their_flops, "their_flops", "their FLOPs") \
    X(REAL, ratio, "ratio", "speedup") \
    RANKS_LIST(X) \
    X(TEXT, status, "status", "status") \
    X(TEXT, note, "note", "note") \
    X(LIST, samples_ms, "samples_ms", "samples ms")

typedef struct list {
    double *x;
    int64_t n;
} list;

typedef struct row {
#define MEMBER_TEXT(member) char member[192];
#define MEMBER_INT(member) int64_t member;
#define MEMBER_TRUTH(member) int64_t member;
#define MEMBER_REAL(member) double member;
#define MEMBER_LIST(member) list member;
#define X(kind, member, key, heading) MEMBER_##kind(member)
    ROW_LIST(X)
#undef X
    const bench_case *c;
    double flops, bytes;
} row;

typedef enum kind { TEXT, INT, TRUTH, REAL, LIST } kind;
static const struct field {
    kind kind;
    size_t offset;
    const char *key, *heading;
} fields[] = {
#define X(kind, member, key, heading) {kind, offsetof(row, member), key, heading},
    ROW_LIST(X)
#undef X
};

static const char *row_text(const row *r, const struct field *f) {
    return (const char *)r + f->offset;
}

static int64_t row_int(const row *r, const struct field *f) {
    return *(const int64_t *)((const char *)r + f->offset);
}

static double row_real(const row *r, const struct field *f) {
    return *(const double *)((const char *)r + f->offset);
}

static list row_list(const row *r, const struct field *f) {
    return *(const list *)((const char *)r + f->offset);
}

static bool row_null(const row *r, const struct field *f) {
    return f->kind == TEXT   ? !*row_text(r, f)
           : f->kind == LIST ? !row_list(r, f).n
           : f->kind == REAL ? !isfinite(row_real(r, f))
                             : row_int(r, f) == NO_INT;
}

static const struct field *find_field(const char *key) {
    for (int i = 0; i < COUNT(fields); i++)
        if (!strcmp(fields[i].key, key)) return &fields[i];
    return NULL;
}

/* Sets the status, and adds a sentence to the note. */
static void remark(row *r, const char *status, const char *format, ...) {
    size_t used = strlen(r->note);
    va_list args;
    keep_point();
    if (status) snprintf(r->status, sizeof r->status, "%s", status);
    if (used && used + 3 < sizeof r->note)
        used += (size_t)snprintf(r->note + used, sizeof r->note - used, "; ");
    va_start(args, format);
    vsnprintf(r->note + used, sizeof r->note - used, format, args);
    va_end(args);
}

static bool row_ok(const row *r) { return !strcmp(r->status, "ok"); }
static bool is_gpu(const row *r) { return !strcmp(r->backend, "hip"); }

static row null_row(void) {
    row r;
    memset(&r, 0, sizeof r);
    for (int i = 0; i < COUNT(fields); i++)
        if (fields[i].kind == REAL) *(double *)((char *)&r + fields[i].offset) = NAN;
        else if (fields[i].kind == INT || fields[i].kind == TRUTH)
            *(int64_t *)((char *)&r + fields[i].offset) = NO_INT;
    return r;
}

static bool is_timing(int64_t measure) {
    return measure == TIME || measure == GENERATE || measure == MODULE || measure >= RANKS;
}

/* A way to bear a policy's tolerance, for which a row is named as for a backend: by attn.h's own
 * choice, or in a basis of the keys (>>basis). */
static bool is_mode(const char *name) {
    return !strcmp(name, "precision") || !strcmp(name, "rank");
}

static const row *running; /* whose backend computes or plans; NULL: none */

static row new_row(const bench_case *c, const char *backend) {
    row r = null_row();
    char word[32];
    const int64_t *v = c->v;
    r.c = c;
    snprintf(r.suite, sizeof r.suite, "%s", c->suite->name);
    snprintf(r.name, sizeof r.name, "%s", c->name);
    snprintf(r.backend, sizeof r.backend, "%s", backend);
    snprintf(r.dtype, sizeof r.dtype, "%s", axis_word(DTYPE, v[DTYPE], word));
    snprintf(r.kv_dtype, sizeof r.kv_dtype, "%s", axis_word(KV_DTYPE, v[KV_DTYPE], word));
    snprintf(r.pass, sizeof r.pass, "%s", axis_word(PASS, v[PASS], word));
    snprintf(r.mask, sizeof r.mask, "%s", axis_word(MASK, v[MASK], word));
    snprintf(r.status, sizeof r.status, "ok");
    if (c->suite->their_flops && is_timing(v[MEASURE]))
        snprintf(r.their_flops, sizeof r.their_flops, "%s", c->suite->their_flops);
    r.batch = v[BATCH], r.q_len = v[SEQ], r.kv_len = v[KV], r.heads = v[HEADS],
    r.kv_heads = v[KV_HEADS];
    r.head_dim = v[DIM], r.v_dim = v[V_DIM], r.causal = v[CAUSAL], r.threads = v[THREADS],
    r.seed = v[SEED];
    if (v[POLICY] && is_mode(backend)) r.tolerance = (double)policy_tolerance[v[POLICY]];
    return r;
}

/* =================================================================================== >>npy ==== */
typedef struct npy {
    char *data; /* owned */
    int dims;
    int64_t shape[4], count;
    int32_t dtype;
} npy;

static const struct {
    const char *descr;
    int32_t dtype;
} npy_types[] = {
    {"<f4", ATTN_F32},
    {"<f2", ATTN_F16},
    {"<f8", ATTN_F64},
    {"|b1", ATTN_BOOL},
    {"|u1", ATTN_BOOL},
};

static int read_failed(FILE *f, npy *a, char *header, const char *path, const char *why) {
    if (f) fclose(f);
    free(header);
    free(a->data);
    a->data = NULL;
    return refuse("%s: %s", path, why);
}

/* The value after 'key': in a .npy header, or NULL. */
static const char *npy_value(const char *header, const char *key) {
    const char *s = strstr(header, key);
    s = s ? strchr(s, ':') : NULL;
    return s ? s + 1 + strspn(s + 1, " ") : NULL;
}

/* Type and shape from the header's text. Returns NULL or what is wrong. */
static const char *parse_npy_header(const char *header, npy *a) {
    const char *descr = npy_value(header, "'descr'"), *order = npy_value(header, "'fortran_order'");
    const char *s = npy_value(header, "'shape'");
    if (!descr || !*descr || !order || !s || *s != '(') return "not a .npy header";
    if (strncmp(order, "False", 5))
        return "is in Fortran order: save it with numpy.ascontiguousarray";
    a->dtype = -1;
    for (int i = 0; i < COUNT(npy_types); i++)
        if (!strncmp(descr + 1, npy_types[i].descr, 3) && descr[4] == descr[0])
            a->dtype = npy_types[i].dtype;
    if (a->dtype < 0)
        return "type must be float32 or float16 (a mask: bool or uint8), little endian";
    a->count = 1;
    for (s++; *(s += strspn(s, " ,")) != ')';) {
        char *end;
        long long n = strtoll(s, &end, 10);
        if (end == s || n < 0 || a->dims == 4 || (n && a->count > (INT64_MAX >> 8) / n))
            return "must have at most 4 dimensions, none of them negative, and fewer than 2^55 "
                   "elements";
        a->shape[a->dims++] = n;
        a->count *= n;
        s = end;
    }
    return NULL;
}

/* Reads a whole file; exactly the bytes that its header announces. Returns 0, or EXIT_BAD
 * after one line. */
static int read_npy(const char *path, npy *a) {
    unsigned char start[12] = {0};
    FILE *f = fopen(path, "rb");
    memset(a, 0, sizeof *a);
    if (!f) return read_failed(f, a, NULL, path, strerror(errno));
    if (fgetc(f) == EOF && ferror(f)) return read_failed(f, a, NULL, path, strerror(errno));
    rewind(f);
    if (fread(start, 1, 10, f) != 10 || memcmp(start, "\x93NUMPY", 6) || start[6] < 1 ||
        start[6] > 3)
        return read_failed(f, a, NULL, path, "not a .npy file");
    size_t length = (size_t)(start[8] | start[9] << 8);
    if (start[6] > 1) {
        if (fread(start + 10, 1, 2, f) != 2 || start[10] || start[11])
            return read_failed(f, a, NULL, path, "truncated, or a header over 64 KiB");
    }
    char *header = calloc(length + 1, 1);
    if (!header || fread(header, 1, length, f) != length)
        return read_failed(f, a, header, path, "truncated in its header");
    const char *why = parse_npy_header(header, a);
    if (why) return read_failed(f, a, header, path, why);
    size_t bytes = (size_t)attn__bytes(a->dtype, a->count);
    a->data = malloc(bytes + 1);
    if (!a->data) return read_failed(f, a, header, path, "does not fit in memory");
    if (fread(a->data, 1, bytes, f) != bytes)
        return read_failed(f, a, header, path, "truncated: fewer bytes than its shape announces");
    if (fgetc(f) != EOF)
        return read_failed(f, a, header, path, "more bytes than its shape announces");
    free(header);
    fclose(f);
    return 0;
}

/* A whole file under its name or none: written beside it, then renamed. The name beside it does not
 * grow with that of the file, which may be as long as the system allows. */
static FILE *create(const char *path, char temporary[4096]) {
    static int count;
    char real[4096];
    struct stat there;
    if (!real_path(path, real)) {
        refuse("%s: %s", path, strerror(errno));
        return NULL;
    }
    const char *slash = strrchr(real, '/');
    if (!stat(path, &there) && !S_ISREG(there.st_mode)) {
        refuse("%s: there is something other than a file", path);
        return NULL; /* a rename would replace a device */
    }
    snprintf(temporary, 4096, "%.*s.attn_bench.%ld.%d.part", slash ? (int)(slash + 1 - real) : 0,
        real, (long)getpid(), count++);
    FILE *f = fopen(temporary, "w+b");
    if (!f) refuse("%s: %s", path, strerror(errno));
    return f;
}

static int commit(FILE *f, const char *path, const char *temporary) {
    bool written = !ferror(f) && reach_disk(f);
    int error = errno;
    if (fclose(f) && written) written = false, error = errno;
    if (written && replace_file(temporary, path)) return 0;
    error = written ? errno : error;
    unlink(temporary);
    return refuse("%s: %s", path, strerror(error));
}

static int write_npy(const char *path, const npy *a) {
    char temporary[4096], shape[128] = "", header[192];
    FILE *f = create(path, temporary);
    if (!f) return EXIT_BAD;
    for (int i = 0; i < a->dims; i++)
        snprintf(
            shape + strlen(shape), sizeof shape - strlen(shape), "%lld, ", (long long)a->shape[i]);
    int n =
        snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }",
            a->dtype == ATTN_F32 ? "<f4" : "<f2", shape);
    int length = (10 + n + 1 + 63) / 64 * 64 - 10; /* data at a multiple of 64 bytes */
    fwrite("\x93NUMPY\x01\x00", 1, 8, f);
    fputc(length & 255, f);
    fputc(length >> 8, f);
    fprintf(f, "%-*s\n", length - 1, header);
    fwrite(a->data, (size_t)attn__bytes(a->dtype, 1), (size_t)a->count, f);
    return commit(f, path, temporary);
}

/* =============================================================================== >>problem ==== */
typedef struct files {
    npy q, k, v, mask, expect;
    bool has_mask, has_expect;
    char path[3][4096]; /* of q, k and v */
} files;

/* What a call with a tolerance leaves beside o. */
typedef struct promise {
    float *cert; /* [batch, heads, q_len] */
    attn_statistics told;
    double tolerance; /* that was asked for */
    double rank,
        effective; /* of the rank mode: dimensions summed, effective rank; means of heads */
} promise;

/* Memory of a problem between two margins that nobody writes to. `sum`: of what an input holds. */
typedef struct block {
    char *data;
    int64_t bytes;
    uint64_t sum;
} block;

/* The tensors of a case and their description; dtype of o is that of q. */
typedef struct problem {
    attn_desc d;
    attn_grad g;
    float *cert;      /* owned, in cases with a policy */
    promise *promise; /* of the mode in whose turn it is, NULL: the call is exact */
    bool by_rank;
    float *lse; /* owned; d.lse where a call has it */
    /* k and v of int16 once more, in the places of their elements: their planes cannot be sliced */
    float *k_f32, *v_f32;
    block owned[48];
    int owned_count;
    bool failed;                /* an allocation failed */
    double pairs, flops, bytes; /* visible pairs over batch and heads; of one call */
    char message[256];
} problem;

enum { MARGIN = 64 };

/* A margin's bytes differ, so that no fill is like them. */
static char margin_byte(int i) { return (char)(11 + 37 * i); }

static void mark_margins(block *x) {
    for (int i = 0; i < MARGIN; i++) x->data[i - MARGIN] = x->data[x->bytes + i] = margin_byte(i);
}

/* Whether one was written to; they are marked anew. */
static bool margins_hit(block *x) {
    bool hit = false;
    for (int i = 0; i < MARGIN; i++)
        hit |= x->data[i - MARGIN] != margin_byte(i) || x->data[x->bytes + i] != margin_byte(i);
    mark_margins(x);
    return hit;
}

/* Of a problem that is made again: the same memory in the same order. */
static void *own(problem *p, int64_t bytes) {
    block *x = &p->owned[p->owned_count];
    char *memory = x->data ? x->data - MARGIN : aligned_get((size_t)bytes + 2 * MARGIN, MARGIN);
    if (!memory) {
        p->failed = true;
        return NULL;
    }
    x->data = memory + MARGIN, x->bytes = bytes;
    mark_margins(x);
    p->owned_count++;
    return x->data;
}

/* Gives back what was owned from the n-th block on. */
static void disown(problem *p, int n) {
    for (block *x; p->owned_count > n; x->data = NULL) {
        x = &p->owned[--p->owned_count];
        aligned_put(x->data - MARGIN);
    }
}

static void problem_free(problem *p) { disown(p, 0); }

static uint64_t mix(uint64_t x) /* the finalizer of splitmix64 */
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint64_t draw(uint64_t stream, uint64_t i) {
    return mix(stream + (i + 1) * UINT64_C(0x9e3779b97f4a7c15));
}

static float normal(uint64_t stream, uint64_t i) /* about N(0,1): the sum of four 16-bit draws */
{
    uint64_t h = draw(stream, i);
    return ((float)(h & 0xffff) + (float)(h >> 16 & 0xffff) + (float)(h >> 32 & 0xffff) +
               (float)(h >> 48) - 131070.0f) /
           37837.2f;
}

typedef struct filling {
    void *to;
    int64_t count;
    int32_t dtype;
    int which, data;
    uint64_t stream;
} filling;
/* A chunk of int16 is a pair of planes, whole: its end is the tensor's, or the next begins there. */
enum { FILL_CHUNK = ATTN_PLANE, TO_Q = 0, TO_K, TO_V, TO_DOUT };

static float element(const filling *f, int64_t i) {
    static const float gain[] = {1, 1, 8, 0.1f, 10, 64};
    double x = 0.01 * (double)i;
    if (f->data == SMOOTH && f->which != TO_DOUT) /* ROCmForge's data */
        return 0.1f * (float)(f->which == TO_Q ? sin(x) : f->which == TO_K ? cos(x) : tan(x));
    /* large queries alone make the softmax peaked */
    bool peaked = f->data == PEAKED || f->data == STEEP;
    bool scaled = !peaked || f->which == TO_Q;
    return normal(f->stream, (uint64_t)i) * (scaled ? gain[f->data] : 1);
}

static void fill_chunk(void *arg, int64_t chunk) {
    const filling *f = arg;
    float x[FILL_CHUNK];
    int64_t first = chunk * FILL_CHUNK,
            n = f->count - first < FILL_CHUNK ? f->count - first : FILL_CHUNK;
    char *to = (char *)f->to + attn__bytes(f->dtype, first);
    if (attn__is_scaled(f->dtype)) {
        for (int64_t i = 0; i < n; i++) {
            uint64_t h = draw(f->stream, (uint64_t)(first + i));
            int fp8 = (int)((h & 0x87) | (h >> 8) % 9 << 3); /* magnitudes below 4: never NaN */
            to[i] = (char)(f->dtype == ATTN_FP8_E4M3 ? fp8 : (int)(h % 255) - 127);
            if (f->dtype == ATTN_INT16) to[i + ATTN_PLANE] = (char)(h >> 16 & 0xff);
        }
        return;
    }
    for (int64_t i = 0; i < n; i++) x[i] = element(f, first + i);
    int64_t shape[4] = {1, 1, 1, n};
    attn_in src = {.data = x};
    attn_out dst = {.data = to, .dtype = f->dtype};
    attn_desc here = {.threads = 1};
    attn_convert(shape, src, dst, &here);
}

/* A tensor of `count` elements, filled; NULL when memory is short. */
static void *tensor(
    problem *p, const bench_case *c, int64_t count, int32_t dtype, int which, int salt) {
    const int64_t room = dtype == ATTN_INT16 ? attn__round_up(count, ATTN_PLANE) : count;
    filling f = {own(p, attn__bytes(dtype, room)), count, dtype, which, (int)c->v[DATA],
        mix((uint64_t)c->v[SEED]) + (uint64_t)salt * UINT64_C(0x632be59bd9b4e019)};
    if (f.to) attn_parallel(&(attn_desc){0}, fill_chunk, &f, (count + FILL_CHUNK - 1) / FILL_CHUNK);
    return f.to;
}

static void dense(int64_t stride[3], int64_t layout, int64_t tokens, int64_t heads, int64_t dim) {
    stride[0] = tokens * heads * dim;
    stride[1] = layout == ATTN_BHSD ? dim : heads * dim;
    stride[2] = layout == ATTN_BHSD ? tokens * dim : dim;
}

/* Shape, strides, flags: everything but memory. */
static void describe(const bench_case *c, attn_desc *d) {
    const int64_t *v = c->v;
    memset(d, 0, sizeof *d);
    d->batch = v[BATCH], d->q_len = v[SEQ], d->kv_len = v[KV], d->heads = v[HEADS],
    d->kv_heads = v[KV_HEADS];
    d->head_dim = v[DIM], d->v_dim = v[V_DIM], d->threads = (int32_t)v[THREADS];
    d->flags = (v[CAUSAL] ? ATTN_CAUSAL : 0u) | (v[LEFT] >= 0 ? ATTN_WINDOW_LEFT : 0u) |
               (v[RIGHT] >= 0 ? ATTN_WINDOW_RIGHT : 0u);
    d->window_left = v[LEFT] >= 0 ? v[LEFT] : 0;
    d->window_right = v[RIGHT] >= 0 ? v[RIGHT] : 0;
    d->q.dtype = d->o.dtype = (int32_t)v[DTYPE];
    d->k.dtype = d->v.dtype = (int32_t)v[KV_DTYPE];
    int64_t tokens = v[PAGE] ? v[PAGE] : v[KV];
    dense(d->q.stride, v[LAYOUT], v[SEQ], v[HEADS], v[DIM]);
    dense(d->o.stride, v[LAYOUT], v[SEQ], v[HEADS], v[V_DIM]);
    dense(d->k.stride, v[LAYOUT], tokens, v[KV_HEADS], v[DIM]);
    dense(d->v.stride, v[LAYOUT], tokens, v[KV_HEADS], v[V_DIM]);
    if (v[MASK]) {
        d->mask.dtype = ATTN_BOOL;
        d->mask.stride[0] = d->mask.stride[1] = ATTN_BROADCAST;
        d->mask.stride[2] = v[KV];
    }
}

/* Keys that a query at position `at` among the keys sees by causal and window
 * rules: [*first, *last]. */
static void visible(const attn_desc *d, int64_t at, int64_t *first, int64_t *last) {
    *first = d->flags & ATTN_WINDOW_LEFT && at - d->window_left > 0 ? at - d->window_left : 0;
    *last = d->kv_len - 1;
    if (d->flags & ATTN_CAUSAL && at < *last) *last = at;
    if (d->flags & ATTN_WINDOW_RIGHT && at + d->window_right < *last) *last = at + d->window_right;
}

static int64_t stride_of(int64_t stride) { return stride == ATTN_BROADCAST ? 0 : stride; }

static double count_pairs(const attn_desc *d) {
    const unsigned char *mask = d->mask.data;
    const int64_t *s = d->mask.stride;
    int64_t batches = mask && s[0] != ATTN_BROADCAST ? d->batch : 1,
            heads = mask && s[1] != ATTN_BROADCAST ? d->heads : 1;
    double pairs = 0;
    for (int64_t b = 0; b < batches; b++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t i = 0; i < d->q_len; i++) {
                int64_t first, last, n = 0;
                visible(d, i + d->kv_len - d->q_len, &first, &last);
                for (int64_t j = first; mask && j <= last; j++)
                    n +=
                        mask[b * stride_of(s[0]) + h * stride_of(s[1]) + i * stride_of(s[2]) + j] !=
                        0;
                pairs += (double)(mask ? n : last >= first ? last - first + 1 : 0);
            }
    return pairs * (double)(d->batch / batches) * (double)(d->heads / heads);
}

/* random: half of the keys, and always the first; blocks: the tokens of three experts in one
 * attention, each block seeing itself and the blocks before it, as gemma does with image and
 * prompt, state, and actions. */
static void make_mask(problem *p, const bench_case *c) {
    int64_t q = c->v[SEQ], kv = c->v[KV];
    unsigned char *mask = own(p, q * kv);
    for (int64_t i = 0; mask && i < q; i++)
        for (int64_t j = 0; j < kv; j++) {
            int64_t blocks_i = (i >= q * 3 / 4) + (i >= q * 7 / 8), end = blocks_i == 0 ? kv * 3 / 4
                                                                          : blocks_i == 1
                                                                              ? kv * 7 / 8
                                                                              : kv;
            mask[i * kv + j] =
                c->v[MASK] == BLOCK_MASK
                    ? j < end || j == 0
                    : j == 0 || (draw((uint64_t)c->v[SEED], (uint64_t)(i * kv + j)) & 1);
        }
    p->d.mask.data = mask;
}

/* The cache's scales, its pages in shuffled order, and the tokens that the call appends. */
static void make_cache(problem *p, const bench_case *c) {
    const int64_t *v = c->v;
    attn_desc *d = &p->d;
    int64_t pages_each = v[PAGE] ? (v[KV] + v[PAGE] - 1) / v[PAGE] : 0,
            pages = pages_each * v[BATCH];
    int64_t rows = v[PAGE] ? pages * v[PAGE] : v[BATCH] * v[KV];
    if (attn__is_scaled(d->k.dtype)) {
        float *k_scale = own(p, rows * v[KV_HEADS] * 4), *v_scale = own(p, rows * v[KV_HEADS] * 4);
        for (int64_t i = 0; k_scale && v_scale && i < rows * v[KV_HEADS]; i++)
            k_scale[i] = v_scale[i] =
                (d->k.dtype == ATTN_FP8_E4M3 ? 1.0f / 2 : 1.0f / 64) * (1 + (float)(i % 7) / 8);
        d->k.scale = k_scale, d->v.scale = v_scale;
        dense(d->k.scale_stride, ATTN_BSHD, v[PAGE] ? v[PAGE] : v[KV], v[KV_HEADS], 1);
        memcpy(d->v.scale_stride, d->k.scale_stride, sizeof d->k.scale_stride);
    }
    if (v[PAGE] || v[APPEND]) {
        int32_t *used = own(p, v[BATCH] * 4);
        for (int64_t b = 0; used && b < v[BATCH]; b++)
            used[b] = (int32_t)(v[KV] - (v[APPEND] ? v[SEQ] : 0));
        d->seq.used_k = used;
    }
    if (v[PAGE]) {
        int32_t *table = own(p, pages * 4);
        for (int64_t i = 0; table && i < pages; i++) { /* Fisher-Yates, inside out */
            int64_t j = (int64_t)(draw((uint64_t)v[SEED], (uint64_t)i) % (uint64_t)(i + 1));
            table[i] = table[j];
            table[j] = (int32_t)i;
        }
        d->seq.block_table = table;
        d->seq.page_size = v[PAGE], d->seq.pages = pages, d->seq.max_pages = pages_each;
    }
    if (v[APPEND]) {
        int64_t n = v[BATCH] * v[SEQ] * v[KV_HEADS];
        d->append.k.dtype = d->append.v.dtype = (int32_t)v[DTYPE];
        d->append.k.data = tensor(p, c, n * v[DIM], d->append.k.dtype, TO_K, 10);
        d->append.v.data = tensor(p, c, n * v[V_DIM], d->append.v.dtype, TO_V, 11);
        dense(d->append.k.stride, ATTN_BSHD, v[SEQ], v[KV_HEADS], v[DIM]);
        dense(d->append.v.stride, ATTN_BSHD, v[SEQ], v[KV_HEADS], v[V_DIM]);
        d->append.k_cache = (void *)(uintptr_t)d->k.data,
        d->append.v_cache = (void *)(uintptr_t)d->v.data;
        d->append.k_scale = (float *)(uintptr_t)d->k.scale,
        d->append.v_scale = (float *)(uintptr_t)d->v.scale;
        d->append.len = v[SEQ];
    }
}

static void make_gradients(problem *p, const bench_case *c) {
    const attn_desc *d = &p->d;
    const attn_in *like[] = {&d->q, &d->k, &d->v};
    attn_out *out[] = {&p->g.dq, &p->g.dk, &p->g.dv};
    for (int i = 0; i < 3; i++) {
        out[i]->data = own(p, attn__bytes(like[i]->dtype, d->batch * like[i]->stride[0]));
        out[i]->dtype = like[i]->dtype;
        memcpy(out[i]->stride, like[i]->stride, sizeof out[i]->stride);
    }
    p->g.dout.dtype = d->o.dtype;
    memcpy(p->g.dout.stride, d->o.stride, sizeof d->o.stride);
    p->g.dout.data = tensor(p, c, d->batch * d->o.stride[0], d->o.dtype, TO_DOUT, 4);
}

static const char *human_bytes(double bytes, char text[32]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int u = 0;
    for (; bytes >= 1024 && u < COUNT(units) - 1; u++) bytes /= 1024;
    snprintf(text, 32, bytes < 10 && u ? "%.1f %s" : "%.0f %s", bytes, units[u]);
    return text;
}

/* Bytes of the tensors of a case: what one call reads and writes once, doubled by the gradients
 * of a backward, which reads lse too; a forward is timed without it. */
static double tensor_bytes(const bench_case *c) {
    const int64_t *v = c->v;
    const int32_t type = (int32_t)v[DTYPE], kv_type = (int32_t)v[KV_DTYPE];
    double row = (double)(attn__bytes(type, v[DIM]) + attn__bytes(type, v[V_DIM])),
           kv_row = (double)(attn__bytes(kv_type, v[DIM]) + attn__bytes(kv_type, v[V_DIM]));
    double q = (double)v[BATCH] * (double)v[SEQ] * (double)v[HEADS] * row;
    double kv = (double)v[BATCH] * (double)v[KV] * (double)v[KV_HEADS] * kv_row;
    double mask = !v[MASK] ? 0 : c->mask_bytes > 0 ? c->mask_bytes : (double)v[SEQ] * (double)v[KV];
    double scales = attn__is_scaled(kv_type) ? 8 * (double)(v[BATCH] * v[KV] * v[KV_HEADS]) : 0;
    double lse = v[PASS] == FWD ? 0 : 4 * (double)v[BATCH] * (double)v[HEADS] * (double)v[SEQ];
    return (v[PASS] == FWD ? 1 : 2) * (q + kv) + lse + mask + scales;
}

/* Of a module the elements of its four weights: Q and O of the query heads, K and V of their own. */
static double weights_of(const bench_case *c) {
    const int64_t *v = c->v;
    return (double)(v[HEADS] * v[DIM]) * (double)((v[HEADS] + v[KV_HEADS]) * (v[DIM] + v[V_DIM]));
}

/* x, y and the four weights of a module; doubled by their gradients. */
static double projection_bytes(const bench_case *c) {
    const int64_t *v = c->v;
    double rows = (double)(v[BATCH] * v[SEQ]), embed = (double)(v[HEADS] * v[DIM]);
    return (v[PASS] == FWD ? 1 : 2) * 4 * (2 * rows * embed + weights_of(c));
}

/* What a module reads and writes: these, and the cache where there is one, doubled likewise. */
static double module_bytes(const bench_case *c) {
    const int64_t *v = c->v;
    double row = (double)attn__bytes((int32_t)v[KV_DTYPE], v[DIM] + v[V_DIM]),
           cache = v[APPEND] ? (double)(v[BATCH] * v[KV] * v[KV_HEADS]) * row : 0;
    return projection_bytes(c) + (v[PASS] == FWD ? 1 : 2) * cache;
}

/* What a call needs beside its workspace: its tensors, whether they are read or not, and a module's. */
static double held_bytes(const bench_case *c) {
    return tensor_bytes(c) + (c->v[MEASURE] == MODULE ? projection_bytes(c) : 0);
}

/* Of these what no row sees, before the first key of the first row and behind the last of the last: k
 * and v, their scales, and columns of a mask, which a call does not read. */
static double unseen_bytes(const bench_case *c, const attn_desc *d) {
    const int64_t *v = c->v;
    bench_case seen = *c;
    int64_t first, last, unused;
    if (!v[SEQ] || !v[KV]) return 0;
    visible(d, v[KV] - v[SEQ], &first, &unused);
    visible(d, v[KV] - 1, &unused, &last);
    seen.v[PASS] = FWD, seen.v[KV] = last >= first ? last - first + 1 : 0;
    bench_case all = seen;
    all.v[KV] = v[KV];
    seen.mask_bytes *= (double)seen.v[KV] / (double)v[KV];
    return tensor_bytes(&all) - tensor_bytes(&seen);
}

static double score_bytes(const bench_case *c) {
    return 4.0 * (double)c->v[BATCH] * (double)c->v[HEADS] * (double)c->v[SEQ] * (double)c->v[KV];
}

static void *own_copy(problem *p, const npy *a) {
    const int64_t bytes = attn__bytes(a->dtype, a->count);
    void *copy = own(p, bytes);
    return copy ? memcpy(copy, a->data, (size_t)bytes) : NULL;
}

/* Takes the dense tensors from files instead of filling them. */
static void take_files(problem *p, const files *in) {
    attn_desc *d = &p->d;
    d->q.data = own_copy(p, &in->q), d->k.data = own_copy(p, &in->k);
    d->v.data = own_copy(p, &in->v);
    if (!in->has_mask) return;
    const npy *m = &in->mask;
    int64_t step = 1;
    for (int to = 0; to < 4 - m->dims; to++) d->mask.stride[to] = ATTN_BROADCAST;
    for (int i = m->dims - 2, to = 2; i >= 0; i--, to--) { /* dimensions of 1 broadcast too */
        step *= m->shape[i + 1];
        d->mask.stride[to] = m->shape[i] == 1 ? ATTN_BROADCAST : step;
    }
    d->mask.data = own_copy(p, m);
}

/* What the planes of t stand for, each in the place of its element; NULL where t has none. */
static float *planes_as_f32(problem *p, const attn_in *t, int64_t blocks, int64_t dim) {
    const attn_desc *d = &p->d;
    const int64_t tokens = d->seq.block_table ? d->seq.page_size : d->kv_len;
    float *wide = t->dtype == ATTN_INT16 ? own(p, blocks * t->stride[0] * 4) : NULL;
    for (int64_t b = 0; wide && !p->failed && b < blocks; b++)
        for (int64_t j = 0; j < tokens; j++)
            for (int64_t h = 0; h < d->kv_heads; h++) {
                int64_t at = b * t->stride[0] + j * t->stride[1] + h * t->stride[2];
                const int64_t *by = t->scale_stride;
                float scale = t->scale[b * by[0] + j * by[1] + h * by[2]];
                for (int64_t e = 0; e < dim; e++)
                    wide[at + e] = attn__get_f32(t->data, t->dtype, at + e) * scale;
            }
    return wide;
}

static void give_message(problem *p, bool wanted) {
    p->d.message = wanted ? p->message : NULL;
    p->d.message_size = wanted ? sizeof p->message : 0;
}

/* Its tensors, described; p->failed when memory is short. */
static void fill_problem(const bench_case *c, const files *in, problem *p) {
    const int64_t *v = c->v;
    describe(c, &p->d);
    attn_desc *d = &p->d;
    int64_t blocks = v[PAGE] ? v[BATCH] * ((v[KV] + v[PAGE] - 1) / v[PAGE]) : v[BATCH];
    if (in) {
        take_files(p, in);
    } else {
        d->q.data = tensor(p, c, v[BATCH] * d->q.stride[0], d->q.dtype, TO_Q, 1);
        d->k.data = tensor(p, c, blocks * d->k.stride[0], d->k.dtype, TO_K, 2);
        d->v.data = tensor(p, c, blocks * d->v.stride[0], d->v.dtype, TO_V, 3);
        if (v[MASK]) make_mask(p, c);
        make_cache(p, c);
        p->k_f32 = planes_as_f32(p, &d->k, blocks, v[DIM]);
        p->v_f32 = planes_as_f32(p, &d->v, blocks, v[V_DIM]);
    }
    d->o.data = own(p, attn__bytes(d->o.dtype, v[BATCH] * d->o.stride[0]));
    d->lse = p->lse = own(p, v[BATCH] * v[HEADS] * v[SEQ] * 4);
    if (v[POLICY]) p->cert = own(p, v[BATCH] * v[HEADS] * v[SEQ] * 4);
    if (v[PASS] != FWD) make_gradients(p, c);
    give_message(p, true);
}

/* Memory, data and counts of a case; false when memory is short. */
static bool problem_make(const bench_case *c, const files *in, problem *p) {
    const int64_t *v = c->v;
    static const double work[] = {1, 2.5, 3.5};
    memset(p, 0, sizeof *p);
    fill_problem(c, in, p);
    if (p->failed) {
        problem_free(p);
        return false;
    }
    p->pairs = count_pairs(&p->d);
    p->flops = work[v[PASS]] * 2 * p->pairs * (double)(v[DIM] + v[V_DIM]);
    p->bytes = tensor_bytes(c) - unseen_bytes(c, &p->d);
    return true;
}

/* The inputs once more, in their places; all else of the problem is as it was. */
static void refill_problem(const bench_case *c, const files *in, problem *p) {
    const attn_desc d = p->d;
    const attn_grad g = p->g;
    const int owned = p->owned_count;
    p->owned_count = 0;
    fill_problem(c, in, p);
    p->owned_count = owned, p->d = d, p->g = g;
}

/* What a block of the problem is to a call. */
static const char *block_name(const problem *p, const block *x, bool *input) {
    const attn_desc *d = &p->d;
    const attn_grad *g = &p->g;
    const bool appends = d->append.len > 0; /* to k and v */
    const struct {
        const char *name;
        const void *data;
        bool input;
    } known[] = {{"q", d->q.data, true}, {"k", d->k.data, !appends}, {"v", d->v.data, !appends},
        {"scales of k", d->k.scale, !appends}, {"scales of v", d->v.scale, !appends},
        {"mask", d->mask.data, true}, {"used_k", d->seq.used_k, true},
        {"block_table", d->seq.block_table, true}, {"new keys", d->append.k.data, true},
        {"new values", d->append.v.data, true}, {"dout", g->dout.data, true},
        {"o", d->o.data, false}, {"lse", p->lse, false}, {"dq", g->dq.data, false},
        {"dk", g->dk.data, false}, {"dv", g->dv.data, false}, {"certificates", p->cert, false},
        {"workspace", d->workspace, false}};
    for (int i = 0; i < COUNT(known); i++)
        if (known[i].data == x->data) {
            *input = known[i].input;
            return known[i].name;
        }
    *input = false;
    return "memory";
}

/* A sum that no change of one word leaves as it is. */
static uint64_t checksum(uint64_t sum, const void *data, size_t bytes) {
    enum { LANES = 4 };
    const char *at = data;
    uint64_t lane[LANES] = {sum, 1, 2, 3}, word[LANES] = {0};
    while (bytes) {
        const size_t n = bytes < sizeof word ? bytes : sizeof word;
        memcpy(word, at, n);
        for (int i = 0; i < LANES; i++) {
            lane[i] = (lane[i] ^ word[i]) * UINT64_C(0x9e3779b97f4a7c15);
            lane[i] ^= lane[i] >> 29;
        }
        at += n, bytes -= n;
    }
    return mix(lane[0] + mix(lane[1] + mix(lane[2] + mix(lane[3]))));
}

static uint64_t block_sum(const block *x) { return checksum(0, x->data, (size_t)x->bytes); }

/* Keeps in mind what the inputs hold before a call. */
static void remember_inputs(problem *p) {
    bool input;
    for (int i = 0; i < p->owned_count; i++)
        if (block_name(p, &p->owned[i], &input) && input) p->owned[i].sum = block_sum(&p->owned[i]);
}

/* What a call leaves behind, of one sequence: o, the gradients and lse. */
enum { CALL_OUTPUTS = 5 };
typedef struct call_output {
    const char *name;
    const void *data;
    size_t bytes, each; /* of all and of an element; 0: the call has no such output */
} call_output;

static void find_outputs(const problem *p, call_output to[CALL_OUTPUTS]) {
    static const char *const names[] = {"o", "dq", "dk", "dv"};
    const attn_desc *d = &p->d;
    const attn_out *out[] = {&d->o, &p->g.dq, &p->g.dk, &p->g.dv};
    for (int i = 0; i < COUNT(out); i++)
        to[i] = (call_output){names[i], out[i]->data,
            out[i]->data ? (size_t)attn__bytes(out[i]->dtype, out[i]->stride[0]) : 0,
            (size_t)attn__bytes(out[i]->dtype, 1)};
    to[CALL_OUTPUTS - 1] =
        (call_output){"lse", d->lse, d->lse ? (size_t)(d->heads * d->q_len * 4) : 0, 4};
}

/* The bits of all outputs. */
static uint64_t output_bits(const problem *p) {
    call_output out[CALL_OUTPUTS];
    uint64_t sum = 0;
    find_outputs(p, out);
    for (int i = 0; i < CALL_OUTPUTS; i++)
        sum = checksum(sum, out[i].data, (size_t)p->d.batch * out[i].bytes);
    return sum;
}

/* How many elements of an output, of the whole batch, are as `poison` left them. */
static int64_t count_unwritten(const problem *p, const call_output *x) {
    static const unsigned char poisoned[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    const char *at = x->data, *const end = x->bytes ? at + (size_t)p->d.batch * x->bytes : at;
    int64_t n = 0;
    for (; at < end; at += x->each) n += !memcmp(at, poisoned, x->each);
    return n;
}

/* The call without its tolerance. */
static attn_desc without_tolerance(const attn_desc *d) {
    attn_desc exact = *d;
    exact.tolerance = 0;
    exact.cert = NULL;
    exact.statistics = NULL;
    return exact;
}

static attn_status basis_forward(const problem *p); /* >>basis */

static attn_status run_forward(const problem *p) {
    return p->by_rank ? basis_forward(p) : attn_forward(&p->d);
}

/* Of the backward: exact, from the o and lse of the forward, whichever that was. */
static attn_desc backward_desc(const problem *p) {
    attn_desc d = without_tolerance(&p->d);
    if (p->d.tolerance > 0) d.backend = "auto";
    return d;
}

static attn_status run_backward(const problem *p) {
    const attn_desc d = backward_desc(p);
    return attn_backward(&d, &p->g);
}

static attn_status run_pass(const problem *p, int64_t pass) {
    attn_status s = ATTN_OK;
    if (pass != BWD) s = run_forward(p);
    if (!s && pass != FWD) s = run_backward(p);
    return s;
}

/* Makes the problem's call that of a row: a backend's, or a mode's with its case's tolerance. */
static void take_mode(problem *p, const bench_case *c, const char *backend, promise *x) {
    const bool mode = c->v[POLICY] && is_mode(backend);
    p->d = without_tolerance(&p->d);
    p->by_rank = mode && !strcmp(backend, "rank");
    p->d.backend = p->by_rank ? "flash" : mode ? "auto" : backend;
    p->promise = mode ? x : NULL;
    if (!mode) return;
    x->cert = p->cert;
    x->tolerance = (double)policy_tolerance[c->v[POLICY]];
    p->d.tolerance = p->by_rank ? 0 : policy_tolerance[c->v[POLICY]];
    if (p->by_rank) return;
    p->d.cert = p->cert;
    p->d.statistics = &x->told;
}

/* ================================================================================= >>check ==== */
/* What a backend computed is compared with the f64 reference, slice by slice. A slice is one (batch
 * entry, head) with some of its queries, described as a view of the same tensors: where the whole
 * would take too long, single seeded rows are enough. */
/* By what factor an output of 16 bits differs from what is expected, over all rows: sums over rows of
 * a = <got, x>, b = <x, x> and their squares. What P loses by rounding is random and averages out
 * over the rows, a factor does not. */
typedef struct scaling {
    double a, b, aa, ab, bb, allowed;
} scaling;

enum { OF_OUTPUT, OF_DQ, OF_DK, OF_DV, SCALINGS };

typedef struct verdict {
    double max_error, worst; /* worst: error / allowed */
    int64_t rows;
    attn_status status;
    const char *checking, *worst_in; /* the output that is compared; that of `worst` */
    scaling scale[SCALINGS];
} verdict;

/* Sampled rows come in runs: their keys are widened to f64 once, and a run at an edge lies on both
 * sides of it. */
enum { SAMPLED_ROWS = 256, RUN_ROWS = 4 };
/* Of the reference in a second, about: what is verified depends on the case alone, on no load. */
static double reference_flops = 5e8;

static const void *advance(const void *data, int64_t elements, int32_t dtype) {
    return data ? (const char *)data + attn__bytes(dtype, elements) : NULL;
}

/* The row of a token and a head in a batch entry. */
static const void *row_in(const attn_in *t, int64_t b, int64_t token, int64_t head) {
    return advance(
        t->data, b * t->stride[0] + token * t->stride[1] + head * t->stride[2], t->dtype);
}

static void *row_out(const attn_out *t, int64_t b, int64_t token, int64_t head) {
    return (char *)t->data +
           attn__bytes(t->dtype, b * t->stride[0] + token * t->stride[1] + head * t->stride[2]);
}

/* Queries i .. i+n-1 of head h, keys j .. j+m-1, in batch entry b, of all heads that share h's
 * keys when `group`. */
static attn_desc slice(const attn_desc *d, int64_t b, int64_t h, int64_t i, int64_t n, int64_t j,
    int64_t m, bool group) {
    attn_desc s = *d;
    int64_t share = d->heads / d->kv_heads, kv_head = h / share, at_b = d->seq.block_table ? 0 : b;
    const int64_t *mask = d->mask.stride;
    s.batch = s.kv_heads = 1;
    s.heads = group ? share : 1;
    s.q_len = n;
    s.q.data = row_in(&d->q, b, i, h);
    s.k.data = row_in(&d->k, at_b, j, kv_head);
    s.v.data = row_in(&d->v, at_b, j, kv_head);
    if (d->k.scale) {
        int64_t at = at_b * d->k.scale_stride[0] + j * d->k.scale_stride[1] + kv_head;
        s.k.scale += at, s.v.scale += at;
    }
    if (d->mask.data)
        s.mask.data = (const char *)d->mask.data + b * stride_of(mask[0]) + h * stride_of(mask[1]) +
                      i * stride_of(mask[2]) + j;
    if (d->seq.used_k) s.seq.used_k += b;
    if (d->seq.block_table) s.seq.block_table += b * d->seq.max_pages;
    if (d->append.len) {
        s.append.k.data = row_in(&d->append.k, b, 0, kv_head);
        s.append.v.data = row_in(&d->append.v, b, 0, kv_head);
        s.append.k_cache = (void *)(uintptr_t)s.k.data,
        s.append.v_cache = (void *)(uintptr_t)s.v.data;
        s.append.k_scale = (float *)(uintptr_t)s.k.scale,
        s.append.v_scale = (float *)(uintptr_t)s.v.scale;
    }
    if (!d->seq.block_table && m != d->kv_len) s.kv_len = m;
    s.flags = (d->flags & ~(uint32_t)ATTN_TOP_LEFT) | ATTN_OFFSET;
    s.offset = i + d->kv_len - d->q_len - j;
    s.backend = "reference";
    s.workspace = NULL; /* the row's is sized for the row's backend */
    s.workspace_size = 0;
    return without_tolerance(&s);
}

/* Where the reference is not finite, so is what is right. Neither an error nor `worst` is a NaN. */
static void compare(verdict *v, double got, double expected, double allowed) {
    const bool both = isfinite(expected) && isfinite(got);
    const double error = both                                  ? fabs(got - expected)
                         : isfinite(expected) != isfinite(got) ? INFINITY
                                                               : 0;
    const double share = both ? error / allowed : error;
    v->max_error = error > v->max_error ? error : v->max_error;
    if (error > 0 && !(share <= v->worst))
        v->worst = isnan(share) ? INFINITY : share, v->worst_in = v->checking;
}

static double unit_of(int32_t dtype) {
    return dtype == ATTN_F16 ? 0x1p-11 : dtype == ATTN_BF16 ? 0x1p-8 : 0x1p-24;
}

/* A row whose numbers are finite; x is rounded as the row itself has to be. */
static void add_to_scale(
    scaling *s, const double *got, const double *exact, int64_t n, int32_t dtype, double allowed) {
    double a = 0, b = 0;
    if (dtype == ATTN_F32) return; /* its elements may be off by little more than their rounding */
    for (int64_t e = 0; e < n; e++) {
        const float f = (float)exact[e];
        const double x = (double)(dtype == ATTN_F16 ? attn__f16_to_f32(attn__f32_to_f16(f))
                                                    : attn__bf16_to_f32(attn__f32_to_bf16(f)));
        a += got[e] * x, b += x * x;
    }
    if (!isfinite(a) || !isfinite(b)) return;
    s->a += a, s->b += b, s->aa += a * a, s->ab += a * b, s->bb += b * b;
    s->allowed = allowed + unit_of(dtype) / 8;
}

/* An output whose elements are all within their bounds is wrong where they are scaled by more than
 * the unit of P, which may be cut, and the spread of the rows explain. */
static void judge_scales(verdict *v) {
    static const char *const names[] = {"scale of o", "scale of dq", "scale of dk", "scale of dv"};
    enum { FEWEST_ROWS = 64, DEVIATIONS = 6 };
    for (int i = 0; i < SCALINGS && v->worst <= 1; i++) {
        const scaling *s = &v->scale[i];
        const double factor = s->a / s->b,
                     square = s->aa - 2 * factor * s->ab + factor * factor * s->bb,
                     share = fabs(factor - 1) /
                             (s->allowed + DEVIATIONS * sqrt(fmax(0, square)) / s->b);
        /* so many rows of equal size at least */
        if (s->b * s->b >= FEWEST_ROWS * s->bb && share > 1)
            v->worst = share, v->worst_in = names[i];
    }
}

/* The lse of a row: where the row sees no key it is -infinity and nothing else. The largest error
 * of a row is that of o and the gradients: lse only has to be right. */
static void compare_lse(verdict *v, double got, double expected, double allowed) {
    double largest = v->max_error;
    bool empty = isinf(expected) && expected < 0;
    v->checking = "lse";
    compare(v, empty && got != expected ? 0 : got, expected, allowed); /* 0: any other number */
    v->max_error = largest;
}

/* n rows of a head's output or gradient, as f64. */
static void widen(
    double *to, const attn_out *from, int64_t b, int64_t h, int64_t i, int64_t n, int64_t dim) {
    int64_t shape[4] = {1, n, 1, dim};
    attn_in src = {.data = row_out(from, b, i, h),
        .stride = {from->stride[0], from->stride[1], from->stride[2]},
        .dtype = from->dtype};
    attn_out dst = {.data = to, .dtype = ATTN_F64};
    attn_desc here = {.threads = 1};
    attn_convert(shape, src, dst, &here);
}

/* Half the smallest number of a type that has few of them below 1. */
static double tiny_of(int32_t dtype) { return dtype == ATTN_F16 ? 0x1p-25 : 0; }

/* The unit of P: attn.h computes in f32 whatever the types, but where the kernel's name says that P
 * is rounded to the nearest bf16; others may cut P to 16 bits. */
static double weight_unit(const attn_desc *d, bool backward) {
    static const char *const in_f32[] = {"reference", "standard", "flash", "adaptive"};
    attn_plan plan;
    if (d->tolerance > 0) return 0; /* by attn.h, and what it rounds is in the certificates */
    for (int i = 0; i < COUNT(in_f32); i++) {
        if (strcmp(d->backend, in_f32[i])) continue;
        return !backward && !attn_query(d, NULL, &plan) && strstr(plan.kernel, "p_bf16") ? 0x1p-9
                                                                                         : 0;
    }
    return d->q.dtype == ATTN_F32 ? 0 : unit_of(d->q.dtype);
}

/* One slice of o and lse by the rule of the contract: 8u times the reference's own sums of |p e v|,
 * the rounding of o, and of P where it may be rounded to 16 bits. */
static void check_slice(
    const problem *p, int64_t b, int64_t h, int64_t i, int64_t n, double *room, verdict *v) {
    const attn_desc *d = &p->d;
    int64_t size = n * d->v_dim;
    double *o = room, *bound = o + size, *pv = bound + size, *got = pv + size,
           *lse_bound = got + size;
    float *lse = (float *)(lse_bound + n);
    attn_desc f32 = *d;
    if (p->k_f32) {
        f32.k.data = p->k_f32, f32.v.data = p->v_f32;
        f32.k.dtype = f32.v.dtype = ATTN_F32;
        f32.k.scale = f32.v.scale = NULL;
    }
    attn_desc s = slice(&f32, b, h, i, n, 0, d->kv_len, false);
    attn__bounds bounds = {bound, pv, lse_bound};
    double u_o = unit_of(d->o.dtype), u_p = weight_unit(d, false);
    memset(&s.o, 0, sizeof s.o);
    s.o.data = o, s.o.dtype = ATTN_F64, s.lse = lse;
    v->status = attn__reference_bounds(&s, &bounds);
    if (v->status) return;
    widen(got, &d->o, b, h, i, n, d->v_dim);
    v->checking = "o";
    const int64_t row = (b * d->heads + h) * d->q_len + i;
    const float *cert = p->promise ? p->promise->cert + row : NULL;
    const double lse_error = cert ? (double)p->promise->told.lse_error : 0;
    for (int64_t e = 0; e < size; e++)
        compare(v, got[e], o[e],
            8 * 0x1p-24 * bound[e] + u_o * fabs(o[e]) + 2 * u_p * pv[e] + tiny_of(d->o.dtype) +
                0x1p-100 + (cert ? (double)cert[e / d->v_dim] : 0));
    for (int64_t e = 0; e < n && !cert; e++)
        add_to_scale(
            &v->scale[OF_OUTPUT], got + e * d->v_dim, o + e * d->v_dim, d->v_dim, d->o.dtype, u_p);
    for (int64_t e = 0; e < n; e++)
        compare_lse(v, d->lse[row + e], lse[e],
            8 * 0x1p-24 * (fabs((double)lse[e]) + lse_bound[e]) + 0x1p-24 * fabs((double)lse[e]) +
                0x1p-100 + lse_error);
    v->rows += n;
}

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }

/* Where the sampled run k of `run` rows begins: the first and the last rows of all, then those
 * around the edges of likely tiles, then any. */
static int64_t sampled_run(
    int64_t k, uint64_t seed, int64_t run, int64_t rows, int64_t *group, int64_t groups) {
    static const int64_t edges[] = {6, 16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024};
    uint64_t stream = 2 * (uint64_t)k;
    *group = k == 0 ? 0 : k == 1 ? groups - 1 : (int64_t)(draw(seed, stream) % (uint64_t)groups);
    if (k < 2) return k ? rows - run : 0;
    if (k - 2 < COUNT(edges) && edges[k - 2] < rows)
        return min64(edges[k - 2] - run / 2, rows - run);
    return (int64_t)(draw(seed, stream + 1) % (uint64_t)(rows - run + 1));
}

static void check_forward(const problem *p, bool whole, verdict *v) {
    const attn_desc *d = &p->d;
    int64_t groups = d->batch * d->heads, n = whole ? d->q_len : min64(RUN_ROWS, d->q_len),
            slices = whole ? groups : (SAMPLED_ROWS + n - 1) / n;
    double *room = malloc((size_t)(n * (4 * d->v_dim + 2) + 8) * sizeof *room);
    v->status = room ? ATTN_OK : ATTN_ERR_MEMORY;
    for (int64_t k = 0; k < slices && !v->status && !interrupted; k++) {
        int64_t group = k, i = whole ? 0 : sampled_run(k, 7, n, d->q_len, &group, groups);
        check_slice(p, group / d->heads, group % d->heads, i, n, room, v);
    }
    free(room);
}

/* dq, dk or dv of a slice, [rows][heads][width]: by the f64 reference; by naive f32 loops; and for
 * each sum of these, what its terms add up to without their signs: plain, and each weighted with
 * what its exponent may lose, as e_j weights the terms of o. */
typedef struct gradient {
    int64_t rows, heads, width;
    bool whole; /* the slice has all that is summed */
    double *exact, *terms, *weighted;
    float *naive;
} gradient;

/* Gradients of the heads that share keys, some of the queries by all keys or all queries by some
 * of the keys: dq is whole in the first kind of slice, dk and dv in the second. */
typedef struct gradient_slice {
    const problem *p;
    int64_t b, h, i, j; /* where it begins */
    attn_desc d;        /* its view of the tensors */
    attn_grad g;
    gradient of[3];                    /* dq, dk, dv */
    float *q, *k, *v, *o, *dout, *lse; /* its rows in f32 */
    double *doubles;                   /* owned, as are the floats: */
    float *floats;
} gradient_slice;

static int64_t gradient_size(const gradient *t) { return t->rows * t->heads * t->width; }

static float *widen_rows(
    float **room, const attn_in *from, int64_t rows, int64_t heads, int64_t width) {
    int64_t shape[4] = {1, rows, heads, width};
    attn_out to = {.data = *room, .dtype = ATTN_F32};
    attn_desc here = {.threads = 1};
    attn_convert(shape, *from, to, &here);
    *room += rows * heads * width;
    return to.data;
}

/* Memory of a slice and its rows in f32; false when memory is short. */
static bool make_gradient_slice(gradient_slice *s) {
    const attn_desc *all = &s->p->d;
    attn_desc *d = &s->d;
    attn_out *out[] = {&s->g.dq, &s->g.dk, &s->g.dv};
    const attn_in o = {.data = d->o.data,
        .dtype = d->o.dtype,
        .stride = {d->o.stride[0], d->o.stride[1], d->o.stride[2]}};
    int64_t n = d->q_len, m = d->kv_len, share = d->heads, sum = 0;
    s->of[0] = (gradient){n, share, d->head_dim, m == all->kv_len, NULL, NULL, NULL, NULL};
    s->of[1] = (gradient){m, 1, d->head_dim, n == all->q_len, NULL, NULL, NULL, NULL};
    s->of[2] = (gradient){m, 1, d->v_dim, n == all->q_len, NULL, NULL, NULL, NULL};
    for (int t = 0; t < 3; t++) sum += gradient_size(&s->of[t]);
    double *at = s->doubles = calloc((size_t)(3 * sum), sizeof *at);
    float *room = s->floats =
        calloc((size_t)(2 * sum + n * share * (2 * d->v_dim + 1)), sizeof *room);
    if (!at || !room) return false;
    for (int t = 0; t < 3; t++) {
        int64_t size = gradient_size(&s->of[t]);
        s->of[t].exact = at, s->of[t].terms = at + size, s->of[t].weighted = at + 2 * size;
        s->of[t].naive = room;
        at += 3 * size, room += size;
        *out[t] = (attn_out){.data = s->of[t].exact, .dtype = ATTN_F64};
    }
    s->q = widen_rows(&room, &d->q, n, share, d->head_dim);
    s->k = widen_rows(&room, &d->k, m, 1, d->head_dim);
    s->v = widen_rows(&room, &d->v, m, 1, d->v_dim);
    s->o = widen_rows(&room, &o, n, share, d->v_dim);
    s->dout = widen_rows(&room, &s->g.dout, n, share, d->v_dim);
    d->lse = s->lse = room;
    for (int64_t k = 0; k < share; k++)
        memcpy(s->lse + k * n, all->lse + (s->b * all->heads + s->h + k) * all->q_len + s->i,
            (size_t)n * sizeof *s->lse);
    return true;
}

static float dot(const float *x, const float *y, int64_t n, double *terms) {
    float sum = 0;
    *terms = 0;
    for (int64_t e = 0; e < n; e++) sum += x[e] * y[e], *terms += fabs((double)x[e] * (double)y[e]);
    return sum;
}

/* Row i of a gradient += factor * x; `weight`: what the factor may lose, in units of f32. */
static void add_terms(gradient *to, int64_t i, float factor, double weight, const float *x) {
    for (int64_t e = i * to->width; e < (i + 1) * to->width; e++, x++) {
        to->naive[e] += factor * *x;
        to->terms[e] += fabs((double)factor * (double)*x);
        to->weighted[e] += weight * fabs((double)*x);
    }
}

/* What query i of the slice's head k adds to the gradients, in two passes over its keys as in any
 * textbook, from the o and lse given. */
static void naive_row(gradient_slice *s, int64_t k, int64_t i) {
    const attn_desc *d = &s->d;
    int64_t at = i * d->heads + k, first, last;
    const float *q = s->q + at * d->head_dim, *dout = s->dout + at * d->v_dim;
    const unsigned char *mask = d->mask.data;
    float lse = s->lse[k * d->q_len + i], scale = (float)(1 / sqrt((double)d->head_dim));
    double delta_terms, s_terms, dp_terms;
    if (!isfinite(lse)) return;
    if (mask) mask += k * stride_of(d->mask.stride[1]) + i * stride_of(d->mask.stride[2]);
    float delta = dot(dout, s->o + at * d->v_dim, d->v_dim, &delta_terms);
    visible(d, i + d->offset, &first, &last);
    for (int64_t j = first; j <= last; j++) {
        const float *key = s->k + j * d->head_dim;
        if (mask && !mask[j]) continue;
        float score = scale * dot(q, key, d->head_dim, &s_terms), p = expf(score - lse);
        float dp = dot(dout, s->v + j * d->v_dim, d->v_dim, &dp_terms);
        float ds = p * (dp - delta) * scale;
        double e = (double)scale * s_terms + fabs((double)score) + fabs((double)lse) + 4,
               ds_weight = (double)p * e * (dp_terms + delta_terms) * (double)scale;
        add_terms(&s->of[0], at, ds, ds_weight, key);
        add_terms(&s->of[1], j, ds, ds_weight, q);
        add_terms(&s->of[2], j, p, (double)p * e, dout);
    }
}

/* One gradient of a slice, element by element: at most 4 times what the naive loops lose at worst,
 * by the weights of the terms, and the roundings of the result. */
static void compare_gradient(const gradient_slice *s, int t, double *got, verdict *v) {
    static const char *const names[] = {"dq", "dk", "dv"};
    const gradient *x = &s->of[t];
    const attn_out *theirs[] = {&s->p->g.dq, &s->p->g.dk, &s->p->g.dv};
    int32_t dtype = theirs[t]->dtype;
    int64_t share = s->p->d.heads / s->p->d.kv_heads;
    double worst = 0x1p-24, u_p = weight_unit(&s->p->d, true);
    v->checking = names[t];
    for (int64_t e = 0; e < gradient_size(x); e++) {
        double error = fabs((double)x->naive[e] - x->exact[e]);
        if (x->weighted[e] > 0x1p-80 && isfinite(error) && error > worst * x->weighted[e])
            worst = error / x->weighted[e];
    }
    for (int64_t k = 0; k < x->heads; k++) {
        widen(
            got, theirs[t], s->b, t ? s->h / share : s->h + k, t ? s->j : s->i, x->rows, x->width);
        for (int64_t e = 0; e < x->rows * x->width; e++) {
            int64_t at = (e / x->width * x->heads + k) * x->width + e % x->width;
            compare(v, got[e], x->exact[at],
                4 * worst * x->weighted[at] + 2 * u_p * x->terms[at] +
                    (unit_of(dtype) + 0x1p-24) * fabs(x->exact[at]) + tiny_of(dtype) + 0x1p-100);
        }
        for (int64_t i = 0; i < x->rows; i++)
            add_to_scale(&v->scale[OF_DQ + t], got + i * x->width,
                x->exact + (i * x->heads + k) * x->width, x->width, dtype, u_p);
        v->rows += x->rows;
    }
}

static void check_gradient_slice(gradient_slice *s, verdict *v) {
    const attn_desc *all = &s->p->d;
    s->d.o.data = row_out(&all->o, s->b, s->i, s->h);
    s->g = s->p->g;
    s->g.dout.data = row_in(&s->p->g.dout, s->b, s->i, s->h);
    double *got =
        malloc((size_t)(s->d.q_len * all->head_dim + s->d.kv_len * (all->head_dim + all->v_dim)) *
               sizeof *got);
    v->status = got && make_gradient_slice(s) ? attn_backward(&s->d, &s->g) : ATTN_ERR_MEMORY;
    for (int64_t i = 0; i < s->d.q_len && !v->status; i++)
        for (int64_t k = 0; k < s->d.heads; k++) naive_row(s, k, i);
    for (int t = 0; t < 3 && !v->status; t++)
        if (s->of[t].whole) compare_gradient(s, t, got, v);
    free(got);
    free(s->doubles);
    free(s->floats);
}

static void check_backward(const problem *p, bool whole, verdict *v) {
    const attn_desc *d = &p->d;
    int64_t share = d->heads / d->kv_heads, groups = d->batch * d->kv_heads,
            queries = min64(RUN_ROWS, d->q_len), keys = min64(RUN_ROWS, d->kv_len);
    int64_t slices =
        whole ? groups : 2 * ((SAMPLED_ROWS / 2 + min64(queries, keys) - 1) / min64(queries, keys));
    for (int64_t k = 0; k < slices && !v->status && !interrupted; k++) {
        int64_t group = k, i = 0, n = d->q_len, j = 0, m = d->kv_len;
        if (!whole && k % 2) n = queries, i = sampled_run(k / 2, 8, n, d->q_len, &group, groups);
        else if (!whole) m = keys, j = sampled_run(k / 2, 9, m, d->kv_len, &group, groups);
        gradient_slice s = {
            .p = p, .b = group / d->kv_heads, .h = group % d->kv_heads * share, .i = i, .j = j};
        s.d = slice(d, s.b, s.h, i, n, j, m, true);
        check_gradient_slice(&s, v);
    }
}

/* Seconds of the reference, about. It looks at every key, seen or not: as long as 8 FLOPs take. */
static double reference_seconds(double flops, double batch, int64_t heads, int64_t q, int64_t k) {
    return (flops + 8 * batch * (double)heads * (double)q * (double)k) / reference_flops;
}

/* Verifies what run_pass left in o, lse and the gradients, in about `seconds`, or whole. */
static verdict check(const problem *p, int64_t pass, double seconds) {
    verdict v = {.status = ATTN_OK};
    const attn_desc *d = &p->d;
    bool whole =
        reference_seconds(p->flops, (double)d->batch, d->heads, d->q_len, d->kv_len) <= seconds;
    /* samples of so few rows would take each several times */
    check_forward(p, whole || d->batch * d->heads * d->q_len <= SAMPLED_ROWS, &v);
    if (pass != FWD && !v.status) check_backward(p, whole, &v);
    judge_scales(&v);
    return v;
}

/* ================================================================================= >>basis ====
   AdaAttn's "adaptive rank", with a certificate. The queries and keys of a key head are turned into
   an orthonormal basis, about the eigenvectors of K^T K, the largest eigenvalue first. That leaves
   every score as it is, and scores are then summed over the first dimensions only, as many as the
   tolerance needs. With q_rest and k_rest, what lies in the others,

     |score - sum over the first| <= eta = scale |q_rest| |k_rest|           Cauchy and Schwarz
     |o - o'| <= range tanh(eta / 2), range: most minus least of a column of v

   for weights whose logarithms are each off by eta at most differ by tanh(eta / 2) of all at most.
   The basis need not be that of the eigenvectors for this to hold, only orthonormal: few sweeps do.
   Rows that even all dimensions do not keep within the tolerance are computed as without one. */
enum { BASIS_SWEEPS = 3 };

/* Of one key head: batch * kv_heads tasks. */
typedef struct basis_head {
    int64_t rank;                              /* dimensions summed; 0: computed exactly */
    double longest[2], range, most, effective; /* longest |k|, |k_rest|; most: of |v| */
} basis_head;

typedef struct basis_call {
    const problem *p;
    float *q, *k; /* turned: [batch][heads][q_len][dim], [batch][kv_heads][kv_len][dim] */
    basis_head *heads;
} basis_call;

/* Turns rows a and b of g[dim][dim], its columns a and b, and the rows a and b of the basis by the
 * angle that makes g[a][b] 0 (Jacobi). */
static void turn_pair(double *g, double *basis, int64_t dim, int64_t a, int64_t b) {
    const double off = g[a * dim + b];
    if (fabs(off) <= 1e-12 * sqrt(fabs(g[a * dim + a] * g[b * dim + b]))) return;
    const double theta = (g[b * dim + b] - g[a * dim + a]) / (2 * off),
                 t = (theta < 0 ? -1 : 1) / (fabs(theta) + sqrt(theta * theta + 1)),
                 c = 1 / sqrt(t * t + 1), s = t * c;
    double *rows[2][2] = {{g + a * dim, g + b * dim}, {basis + a * dim, basis + b * dim}};
    for (int m = 0; m < 2; m++)
        for (int64_t e = 0; e < dim; e++) {
            const double x = rows[m][0][e], y = rows[m][1][e];
            rows[m][0][e] = c * x - s * y, rows[m][1][e] = s * x + c * y;
        }
    for (int64_t e = 0; e < dim; e++) {
        double *row = g + e * dim;
        const double x = row[a], y = row[b];
        row[a] = c * x - s * y, row[b] = s * x + c * y;
    }
}

/* to[dim] of each row = the row in the basis, whose vectors are the columns of `basis`. */
static void turn_row(float *to, const float *x, const double *basis, double *sum, int64_t dim) {
    for (int64_t e = 0; e < dim; e++) sum[e] = 0;
    for (int64_t d = 0; d < dim; d++)
        for (int64_t e = 0; e < dim; e++) sum[e] += (double)x[d] * basis[d * dim + e];
    for (int64_t e = 0; e < dim; e++) to[e] = (float)sum[e];
}

/* The basis of the keys, vectors in columns, and the effective rank: e to the entropy of the
 * singular values (Roy and Vetterli, 2007). g, turned: [dim][dim]. */
static double key_basis(
    const attn_desc *d, int64_t b, int64_t kv_head, double *g, double *turned, double *basis) {
    const int64_t dim = d->head_dim;
    double sum = 0, entropy = 0;
    memset(g, 0, (size_t)(dim * dim) * sizeof *g);
    memset(turned, 0, (size_t)(dim * dim) * sizeof *turned);
    for (int64_t j = 0; j < d->kv_len; j++) {
        const float *k = row_in(&d->k, b, j, kv_head);
        for (int64_t x = 0; x < dim; x++)
            for (int64_t y = x; y < dim; y++) g[x * dim + y] += (double)k[x] * (double)k[y];
    }
    for (int64_t x = 0; x < dim; x++)
        for (int64_t y = 0; y < x; y++) g[x * dim + y] = g[y * dim + x];
    for (int64_t x = 0; x < dim; x++) turned[x * dim + x] = 1;
    for (int sweep = 0; sweep < BASIS_SWEEPS; sweep++)
        for (int64_t x = 0; x < dim; x++)
            for (int64_t y = x + 1; y < dim; y++) turn_pair(g, turned, dim, x, y);
    for (int64_t x = 0; x < dim; x++) sum += sqrt(fmax(0, g[x * dim + x]));
    for (int64_t x = 0; x < dim; x++) { /* the largest of those left */
        int64_t best = -1;
        for (int64_t y = 0; y < dim; y++)
            if (g[y * dim + y] >= 0 && (best < 0 || g[y * dim + y] > g[best * dim + best]))
                best = y;
        for (int64_t y = 0; y < dim && best < 0; y++)
            if (!isinf(g[y * dim + y])) best = y; /* below 0 by rounding */
        const double share = sum > 0 ? sqrt(fmax(0, g[best * dim + best])) / sum : 0;
        entropy -= share > 0 ? share * log(share) : 0;
        g[best * dim + best] = -INFINITY; /* taken */
        for (int64_t y = 0; y < dim; y++) basis[y * dim + x] = turned[best * dim + y];
    }
    return exp(entropy);
}

/* |x| of dims [from, dim), above its rounding. */
static double length_from(const float *x, int64_t from, int64_t dim) {
    double sum = 0;
    for (int64_t e = from; e < dim; e++) sum += (double)x[e] * (double)x[e];
    return sqrt(sum) * 1.0000001;
}

/* What the score of a turned row may be off by: what is left out, and what f32 rounds of the turned
 * rows and of sums of so many products, which is not that of the rows as they were. */
static double eta_of(const basis_head *h, const float *q, int64_t rank, int64_t dim, double scale) {
    return scale * (length_from(q, rank, dim) * h->longest[1] +
                       (double)(dim + 4) * 0x1p-24 * length_from(q, 0, dim) * h->longest[0]);
}

static double longest_rest(const float *k, int64_t n, int64_t rank, int64_t dim) {
    double longest = 0;
    for (int64_t j = 0; j < n; j++) longest = fmax(longest, length_from(k + j * dim, rank, dim));
    return longest;
}

/* Whether all rows of the head keep to the tolerance with so many dimensions. */
static bool dims_are_enough(basis_head *h, const float *q, int64_t rows, const float *k,
    const attn_desc *d, double most_eta, int64_t rank) {
    const double scale = 1 / sqrt((double)d->head_dim);
    h->longest[1] = longest_rest(k, d->kv_len, rank, d->head_dim);
    for (int64_t i = 0; i < rows; i++)
        if (!(eta_of(h, q + i * d->head_dim, rank, d->head_dim, scale) <= most_eta)) return false;
    return true;
}

/* Turns the rows of a key head and finds how many dimensions they need. */
static void basis_task(void *arg, int64_t n) {
    const basis_call *job = arg;
    const attn_desc *d = &job->p->d;
    const int64_t dim = d->head_dim, share = d->heads / d->kv_heads, rows = share * d->q_len;
    const int64_t b = n / d->kv_heads, kv_head = n % d->kv_heads;
    basis_head *h = &job->heads[n];
    float *q = job->q + n * rows * dim, *k = job->k + n * d->kv_len * dim;
    double *room = malloc((size_t)((3 * dim + 1) * dim) * sizeof *room);
    if (!room) return; /* rank 0: exactly */
    double *basis = room, *sum = room + 3 * dim * dim;
    h->effective = key_basis(d, b, kv_head, room + dim * dim, room + 2 * dim * dim, basis);
    for (int64_t j = 0; j < d->kv_len; j++)
        turn_row(k + j * dim, row_in(&d->k, b, j, kv_head), basis, sum, dim);
    for (int64_t r = 0; r < rows; r++)
        turn_row(q + r * dim, row_in(&d->q, b, r % d->q_len, kv_head * share + r / d->q_len), basis,
            sum, dim);
    free(room);
    for (int64_t e = 0; e < d->v_dim; e++) {
        double top = -INFINITY, low = INFINITY;
        for (int64_t j = 0; j < d->kv_len; j++) {
            const double x = (double)((const float *)row_in(&d->v, b, j, kv_head))[e];
            top = fmax(top, x), low = fmin(low, x);
        }
        h->range = fmax(h->range, top - low), h->most = fmax(h->most, fmax(top, -low));
    }
    h->longest[0] = longest_rest(k, d->kv_len, 0, dim);
    const double limit = 0.999 * job->p->promise->tolerance * h->most / h->range;
    const double most_eta = limit < 1 ? 2 * atanh(limit) : INFINITY;
    int64_t least = 1, enough = dim + 1; /* bisection: more dimensions leave out less */
    while (least < enough) {
        const int64_t half = (least + enough) / 2;
        if (half <= dim && dims_are_enough(h, q, rows, k, d, most_eta, half)) enough = half;
        else least = half + 1;
    }
    h->rank = enough <= dim ? enough : 0;
    h->longest[1] = longest_rest(k, d->kv_len, enough <= dim ? enough : dim, dim);
}

/* The attention of a key head in so many dimensions; its certificates. */
static attn_status basis_run(const basis_call *job, int64_t n) {
    attn_desc d = job->p->d;
    const int64_t dim = d.head_dim, share = d.heads / d.kv_heads, b = n / d.kv_heads,
                  kv_head = n % d.kv_heads, rows = share * d.q_len,
                  at = (b * d.heads + kv_head * share) * d.q_len;
    const basis_head *h = &job->heads[n];
    const float *q = job->q + n * rows * dim;
    promise *x = job->p->promise;
    d.o.data = row_out(&d.o, b, 0, kv_head * share);
    d.v.data = row_in(&d.v, b, 0, kv_head);
    d.q.data = h->rank ? q : row_in(&d.q, b, 0, kv_head * share);
    d.k.data = h->rank ? job->k + n * d.kv_len * dim : row_in(&d.k, b, 0, kv_head);
    if (h->rank) {
        dense(d.q.stride, ATTN_BHSD, d.q_len, share, dim);
        dense(d.k.stride, ATTN_BHSD, d.kv_len, 1, dim);
        d.head_dim = h->rank, d.scale = (float)(1 / sqrt((double)dim)), d.flags |= ATTN_SCALE;
    }
    d.batch = d.kv_heads = 1, d.heads = share;
    d.lse = d.lse ? d.lse + at : NULL;
    d.workspace = NULL, d.workspace_size = 0;
    for (int64_t r = 0; r < rows; r++) {
        const double eta =
            h->rank ? eta_of(h, q + r * dim, h->rank, dim, 1 / sqrt((double)dim)) : 0;
        const float cert = (float)(h->range * tanh(eta / 2) * 1.000001);
        x->cert[at + r] = cert;
        x->told.largest_cert = fmaxf(x->told.largest_cert, cert);
        x->told.lse_error = fmaxf(x->told.lse_error, (float)(eta * 1.000001));
    }
    if (!h->rank) x->told.rows_redone += rows;
    x->rank += (double)(h->rank ? h->rank : dim), x->effective += h->effective;
    return attn_forward(&d);
}

static const char *basis_declines(const attn_desc *d) {
    if (d->q.dtype || d->k.dtype || d->v.dtype) return "rank takes f32";
    if (d->flags || d->mask.data || d->seq.used_k || d->seq.block_table || d->append.len)
        return "rank takes calls without masks and caches";
    return NULL;
}

/* The turned queries and keys. */
static int64_t turned_bytes(const attn_desc *d, bool keys) {
    return 4 * d->head_dim * d->batch * (keys ? d->kv_heads * d->kv_len : d->heads * d->q_len);
}

/* What the mode takes beside the workspace of flash. */
static int64_t basis_bytes(const attn_desc *d) {
    return turned_bytes(d, false) + turned_bytes(d, true) +
           d->batch * d->kv_heads * (int64_t)sizeof(basis_head);
}

static attn_status basis_forward(const problem *p) {
    const attn_desc *d = &p->d;
    promise *x = p->promise;
    const int64_t heads = d->batch * d->kv_heads;
    basis_call job = {p, malloc((size_t)turned_bytes(d, false)),
        malloc((size_t)turned_bytes(d, true)), calloc((size_t)heads, sizeof(basis_head))};
    attn_status s = job.q && job.k && job.heads ? ATTN_OK : ATTN_ERR_MEMORY;
    memset(&x->told, 0, sizeof x->told);
    x->rank = x->effective = 0;
    x->told.rows = d->batch * d->heads * d->q_len;
    if (!s) attn_parallel(d, basis_task, &job, heads);
    for (int64_t n = 0; n < heads && !s; n++) s = basis_run(&job, n);
    x->rank /= (double)heads, x->effective /= (double)heads;
    if (x->told.rows_redone)
        snprintf(x->told.why, sizeof x->told.why, "all dimensions round more than the tolerance");
    free(job.q);
    free(job.k);
    free(job.heads);
    return s;
}

/* =============================================================================== >>measure ==== */
enum { DEFAULT_PROCESSES = 25, MOST_PROCESSES = 64 };
typedef struct options {
    grid user; /* axes given by flags; count 0: not given */
    const char *suites, *backends, *modules, *device, *format, *output_dir, *save_baseline,
        *baseline;
    const char *input, *mask, *expect, *output, *plugins, *filter, *saved, *footprint;
    double min_time;
    int64_t processes; /* whose samples are compared; 0: not given */
    int64_t window[2];
    const char *beside_saved; /* the last flag but --baseline and --saved */
    bool quick, verify, plot, backward, causal, projections, window_set, help, version, list, tune,
        ablate, positional, cold, wide, repeated;
} options;

enum { MOST_BACKENDS = 8, MOST_PARTS = 2 * MOST_BACKENDS };
/* A row beside the saved one: the fastest tenth of each, their ratio with its interval, the chance
 * that equal programs differ so. */
typedef struct comparison {
    const row *now, *old;
    int processes; /* of the side that has fewer */
    double now_ms, old_ms, ratio, low, high, p;
    double p95, p99;     /* how many times as long those of all calls take */
    double clock;        /* how much slower a clock was taken out of all ratios; 1: none */
    const char *verdict; /* slower, faster, same, unclear, too few */
} comparison;

typedef struct writer {
    const char *name;
    void (*begin)(FILE *, const bench *);
    void (*row)(FILE *, bench *, const row *); /* as soon as it is done */
    void (*end)(FILE *, const bench *);
} writer;

struct bench {
    options opt;
    files *files;
    int selection; /* DEFAULT, QUICK or WHOLE */
    bench_case *cases;
    row *rows;
    int64_t case_count, row_count, row_total;
    int64_t *case_places, case_room; /* a hash table: numbers of cases from 1 on, 0: free */
    int left_out; /* cases of suites that a flag makes impossible, and why the first is */
    char left_out_why[128];
    row *repeats; /* the same rows, measured by other processes */
    int64_t repeat_count;
    char backends[MOST_BACKENDS][32]; /* named by --backend; none: each suite's own */
    int backend_count;
    char plugins[MOST_BACKENDS][32]; /* backends of --plugin */
    int plugin_count;
    struct {
        char name[32];
        double flops_per_s;
    } rates[MOST_BACKENDS]; /* learned, for estimates */
    double fma_peak, dot_peak, bandwidth;
    char no_gpu[256]; /* why the backend "hip" takes no call here; "": it does */
    char date[32];
    bool joined;                /* files of three dimensions are [B, S, H * D] */
    int file_code;              /* of writing --output */
    const writer *writer;       /* of rows to stdout as they are done, or NULL */
    const suite *heading;       /* the suite whose rows the table is at */
    const bench_case *labelled; /* the case whose long name was written last */
    int broken;                 /* errno of a stdout that takes no more */
    comparison *comparisons;    /* with --baseline */
    int64_t comparison_count;
    int argc;
    char **argv;
};

/* ---- samples */
typedef struct timing_plan {
    int64_t warmup, iterations; /* untimed calls; timed calls at least */
    double min_seconds;         /* go on until so much time was measured */
} timing_plan;

enum { KERNEL_TIMES = 128 };
typedef struct job {
    bench *b;
    const bench_case *c;
    problem *p;
    row *r;
    attn_status status;
    int64_t pass;
    /* wakes: the plan asks for more threads than one */
    bool reference, gpu, wakes;
    void *module;
    double kernel[KERNEL_TIMES]; /* of the last calls on the GPU, in seconds */
    int64_t kernel_count;
    void (*call)(void *); /* what is timed; NULL: nothing */
    uint64_t bits;        /* of the outputs that were verified */
    timing_plan plan;
    double tokens, peak, bandwidth; /* of a call; sampled before the first */
    list seconds;                   /* of the calls so far */
} job;

/* The timed calls of a row take so long at most, three calls excepted, where --iterations does not
 * ask for more; a quick selection leaves out what takes still longer. */
static const double QUICK_ROW_SECONDS = 1, WHOLE_ROW_SECONDS = 60, QUICK_SKIP_SECONDS = 30,
                    ANNOUNCE_SECONDS = 60, CHECK_SECONDS = 2, QUICK_CHECK_SECONDS = 0.3,
                    REFERENCE_CALL_SECONDS = 5;
enum { REFERENCE_CALLS = 3, FEWEST_CALLS = 3 };

static double *rate_of(bench *b, const char *backend) {
    int i = 0;
    while (i < MOST_BACKENDS - 1 && *b->rates[i].name && strcmp(b->rates[i].name, backend)) i++;
    if (strcmp(b->rates[i].name, backend)) {
        snprintf(b->rates[i].name, sizeof b->rates[i].name, "%s", backend);
        b->rates[i].flops_per_s = !strcmp(backend, "reference")  ? 5e8
                                  : !strcmp(backend, "standard") ? 1e10
                                                                 : 5e10;
    }
    return &b->rates[i].flops_per_s;
}

/* What a call computes: its products and about 20 operations for a weight, one of each pair. */
static double operations(double flops, double pairs) { return flops + 20 * pairs; }

static int64_t calls_of(
    const bench *b, const bench_case *c, const char *backend, double seconds_each) {
    int64_t n = c->v[ITERATIONS];
    double most = (b->selection == WHOLE ? WHOLE_ROW_SECONDS : QUICK_ROW_SECONDS) / seconds_each;
    if (!b->opt.user.count[ITERATIONS] && (double)n > most)
        n = most > FEWEST_CALLS ? (int64_t)most : FEWEST_CALLS;
    return !strcmp(backend, "reference") && n > REFERENCE_CALLS ? REFERENCE_CALLS : n;
}

/* The GPU's own clock, without copies, and the device memory of the call that just ended. */
static void note_kernel(job *j) {
    double kernel = 0;
    size_t bytes = 0;
    if (!j->gpu || j->status || attn_hip_last_times(&kernel, NULL, &bytes)) return;
    j->kernel[j->kernel_count++ % KERNEL_TIMES] = kernel;
    j->r->device_bytes = (int64_t)bytes;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median over the last n calls. */
static double kernel_median(job *j, int64_t n) {
    double last[KERNEL_TIMES];
    n = min64(min64(n, j->kernel_count), KERNEL_TIMES);
    for (int64_t i = 0; i < n; i++) last[i] = j->kernel[(j->kernel_count - 1 - i) % KERNEL_TIMES];
    qsort(last, (size_t)n, sizeof *last, by_size);
    return n ? (last[(n - 1) / 2] + last[n / 2]) / 2 : NAN;
}

static void timed_call(void *user) {
    job *j = user;
    if (!interrupted && !j->status) j->status = run_pass(j->p, j->pass);
    note_kernel(j);
}

/* The workspace that the call asks for, in the description; NULL d.workspace lets the
 * library allocate it. */
static bool planning; /* every backend is asked, not the one of the row alone */

static attn_status ask_plan(const attn_desc *d, const attn_grad *g, attn_plan *plan) {
    planning = true;
    attn_status s = attn_query(d, g, plan);
    keep_point();
    planning = false;
    return s;
}

static attn_status plan_call(problem *p, int64_t pass, attn_plan *plan) {
    attn_plan backward;
    attn_status s = ask_plan(&p->d, pass == BWD ? &p->g : NULL, plan);
    if (s || pass != FWD_BWD) return s;
    const attn_desc d = backward_desc(p);
    s = ask_plan(&d, &p->g, &backward);
    if (!s && backward.workspace_size > plan->workspace_size)
        plan->workspace_size = backward.workspace_size;
    if (s) memcpy(plan, &backward, sizeof backward);
    return s;
}

static bool give_workspace(problem *p, size_t size) {
    if (!size) return true;
    p->d.workspace = own(p, (int64_t)size);
    p->d.workspace_size = p->d.workspace ? size : 0;
    return p->d.workspace != NULL;
}

static void take_workspace(problem *p) {
    int i = p->owned_count;
    while (p->d.workspace && p->owned[--i].data != p->d.workspace) {}
    if (p->d.workspace) { /* it becomes the last one */
        const block workspace = p->owned[i];
        memmove(
            &p->owned[i], &p->owned[i + 1], (size_t)(p->owned_count - 1 - i) * sizeof *p->owned);
        p->owned[p->owned_count - 1] = workspace;
        disown(p, p->owned_count - 1);
    }
    p->d.workspace = NULL;
    p->d.workspace_size = 0;
}

static void poison(problem *p) /* all ones is a NaN in every type: what is not written is noticed */
{
    attn_out *out[] = {&p->d.o, &p->g.dq, &p->g.dk, &p->g.dv};
    for (int i = 0; i < 4; i++)
        if (out[i]->data)
            memset(out[i]->data, 0xff,
                (size_t)attn__bytes(out[i]->dtype, p->d.batch * out[i]->stride[0]));
    memset(p->lse, 0xff, (size_t)(p->d.batch * p->d.heads * p->d.q_len * 4));
    if (p->cert) memset(p->cert, 0xff, (size_t)(p->d.batch * p->d.heads * p->d.q_len * 4));
}

static void failed(row *r, const problem *p, attn_status s) {
    remark(r, "failed", "%s", *p->message ? p->message : attn_status_text(s));
}

/* The forward of a gradient alone, whose workspace it is that was given: it may need another. */
static attn_status forward_before(const problem *p) {
    problem with = *p;
    with.d.workspace = NULL, with.d.workspace_size = 0;
    return run_forward(&with);
}

/* The call as it is timed, and how long it takes. A gradient alone needs a forward's o and lse. */
static double plain_call(job *j, void (*call)(void *)) {
    poison(j->p);
    if (j->pass == BWD) j->status = forward_before(j->p);
    double start = attn_seconds();
    call(j);
    return attn_seconds() - start;
}

/* What calls did to the problem beside computing: inputs that they wrote to, which are made again,
 * and margins. A row that is wrong already is not told once more. */
static void inspect_problem(job *j) {
    problem *p = j->p;
    bool input, spoiled = false;
    const bool told = !row_ok(j->r);
    for (int i = 0; i < p->owned_count; i++) {
        block *x = &p->owned[i];
        const char *name = block_name(p, x, &input);
        const bool changed = input && x->sum != block_sum(x), hit = margins_hit(x);
        if (hit && !told) remark(j->r, "wrong", "it wrote beside its %s", name);
        if (changed && !told) remark(j->r, "wrong", "it wrote to its %s", name);
        spoiled |= changed;
    }
    if (spoiled) refill_problem(j->c, j->b->files, p);
}

/* The same, and what a call left unwritten. */
static void inspect_call(job *j) {
    problem *p = j->p;
    call_output out[CALL_OUTPUTS];
    const bool told = !row_ok(j->r);
    inspect_problem(j);
    find_outputs(p, out);
    for (int i = 0; i < CALL_OUTPUTS; i++) {
        const int64_t n = count_unwritten(p, &out[i]);
        if (n && !told)
            remark(j->r, "wrong", "%s: %lld elements are not written", out[i].name, (long long)n);
    }
}

/* A timed forward call has no lse, as a caller who only infers has none. It is verified by a call
 * that has: o must have the same bits, or is verified apart. */
static verdict check_forward_calls(job *j, double seconds) {
    problem *p = j->p;
    size_t bytes = (size_t)attn__bytes(p->d.o.dtype, p->d.batch * p->d.o.stride[0]);
    verdict v = {.status = ATTN_ERR_MEMORY};
    char *plain = malloc(bytes + 1);
    if (!plain) return v;
    memcpy(plain, p->d.o.data, bytes);
    p->d.lse = p->lse;
    poison(p);
    j->status = run_pass(p, FWD);
    if (!j->status) inspect_call(j);
    v.status = ATTN_OK;
    if (!j->status) v = check(p, FWD, seconds);
    if (!j->status && !v.status && memcmp(plain, p->d.o.data, bytes)) {
        memcpy(p->d.o.data, plain, bytes);
        verdict other = check(p, FWD, seconds);
        v.status = other.status;
        v.max_error = fmax(v.max_error, other.max_error);
        if (!(other.worst <= v.worst)) v.worst = other.worst, v.worst_in = other.worst_in;
    }
    p->d.lse = NULL;
    free(plain);
    return v;
}

/* The largest |v| that query i of a sequence sees, all of its columns. */
static double largest_seen(const problem *p, int64_t b, int64_t kv_head, int64_t i) {
    const attn_desc *d = &p->d;
    attn_in t = d->v;
    double most = 0;
    int64_t first, last;
    if (p->v_f32) t.data = p->v_f32, t.dtype = ATTN_F32;
    visible(d, i + d->kv_len - d->q_len, &first, &last);
    for (int64_t j = first; j <= last; j++) {
        const char *v = row_in(&t, b, j, kv_head);
        for (int64_t e = 0; e < d->v_dim; e++)
            most = fmax(most, fabs(attn__ref_read(v, t.dtype, e)));
    }
    return most;
}

/* The certificates of a mode: within the tolerance, some of them compared with what their rows see;
 * and what was done. */
static void note_promise(job *j) {
    enum { ROWS = 64 };
    const problem *p = j->p;
    const attn_desc *d = &p->d;
    const promise *x = p->promise;
    const attn_statistics *t = &x->told;
    const int64_t rows = d->batch * d->heads * d->q_len, share = d->heads / d->kv_heads;
    float largest = 0;
    bool kept = t->rows == rows;
    for (int64_t n = 0; n < rows; n++) {
        kept = kept && isfinite(x->cert[n]) && x->cert[n] >= 0;
        if (x->cert[n] > largest) largest = x->cert[n];
    }
    for (uint64_t n = 0; n < ROWS && kept && (!d->v.scale || p->v_f32) && !d->seq.block_table;
        n++) {
        const int64_t row = (int64_t)(draw(41, n) % (uint64_t)rows), h = row / d->q_len % d->heads;
        const double most = largest_seen(p, row / d->q_len / d->heads, h / share, row % d->q_len);
        kept = (double)x->cert[row] <= j->r->tolerance * most;
    }
    if (!kept || largest != t->largest_cert)
        remark(j->r, "wrong", "a certificate is beyond the tolerance, or statistics say another");
    j->r->max_cert = (double)largest;
    if (p->by_rank)
        remark(j->r, NULL, "%.1f of %lld dimensions, effective rank %.1f", x->rank,
            (long long)d->head_dim, x->effective);
    else
        remark(j->r, NULL, "int16 in %lld of %lld tiles, %lld rows redone",
            (long long)t->tiles_int16, (long long)(t->tiles_int16 + t->tiles_f32),
            (long long)t->rows_redone);
    if (*t->why) remark(j->r, NULL, "%s", t->why);
}

/* Whether a call has no lse, as those that are timed. */
static bool without_lse(const job *j) { return j->pass == FWD && is_timing(j->c->v[MEASURE]); }

/* Whether somebody else answers for the calls: the process that repeats, or nobody. */
static bool is_trusted(const job *j) { return j->reference || j->b->opt.repeated; }

/* Judges the call that was made; false when that cannot be done. */
static bool verify_call(job *j) {
    const bench *b = j->b;
    row *r = j->r;
    problem *p = j->p;
    double seconds = b->opt.verify           ? 1e18
                     : b->selection == WHOLE ? CHECK_SECONDS
                                             : QUICK_CHECK_SECONDS;
    verdict v = without_lse(j) ? check_forward_calls(j, seconds) : check(p, j->pass, seconds);
    if (j->status) {
        remark(r, "failed", "the second call, with lse: %s",
            *p->message ? p->message : attn_status_text(j->status));
        return false;
    }
    if (v.status) {
        remark(r, "failed", "the reference cannot check it: %s", attn_status_text(v.status));
        return false;
    }
    r->max_abs_err = fmax(r->max_abs_err, v.max_error);
    r->rows_verified = v.rows;
    if (!(v.worst <= 1))
        remark(r, "wrong",
            "%s: %.3g times the error that is allowed; largest error of o and gradients %.3g",
            v.worst_in ? v.worst_in : "an output", v.worst, v.max_error);
    return true;
}

/* The first call, verified. */
static bool first_call(job *j) {
    row *r = j->r;
    problem *p = j->p;
    if (!j->gpu && !give_workspace(p, (size_t)r->workspace_bytes)) j->status = ATTN_ERR_MEMORY;
    p->d.lse = without_lse(j) ? NULL : p->lse;
    if (!is_trusted(j)) remember_inputs(p);
    if (!j->status) r->first_run_ms = 1e3 * plain_call(j, timed_call);
    if (j->status) {
        failed(r, p, j->status);
        return false;
    }
    if (interrupted) return false; /* the row is not kept */
    if (is_trusted(j)) return true;
    j->bits = output_bits(p);
    inspect_call(j);
    if (!verify_call(j)) return false;
    if (p->promise) note_promise(j);
    return true;
}

/* One call after those that were timed: it leaves the bits of the first, or is verified itself. */
static void last_call(job *j) {
    if (is_trusted(j)) return;
    inspect_problem(j); /* of a wrong row too: others come behind it */
    if (!row_ok(j->r) || interrupted) return;
    plain_call(j, j->call);
    if (j->status) return;
    inspect_call(j);
    if (output_bits(j->p) != j->bits) verify_call(j);
}

/* ---- cold caches */
enum { FLUSH_TASKS = 64, SMALLEST_FLUSH = 64 << 20 };
static struct {
    volatile unsigned char *x;
    int64_t size;
} flush_buffer;

/* Twice the last cache. */
static int64_t flush_size(void) {
    int64_t size = SMALLEST_FLUSH;
    const int64_t cache = last_cache();
    size = 2 * cache > size ? 2 * cache : size;
    return size < 1 << 30 ? size : 1 << 30;
}

static void flush_part(void *user, int64_t i) {
    int64_t each = flush_buffer.size / FLUSH_TASKS;
    (void)user;
    for (int64_t at = i * each; at < (i + 1) * each; at += 64) flush_buffer.x[at]++;
}

/* Walks through more memory than the caches hold, on the threads of the case: no tensor is left in
 * any. False when memory is short. */
static bool flush_caches(const bench_case *c) {
    attn_desc where = {.threads = (int32_t)c->v[THREADS]};
    if (!flush_buffer.x) {
        flush_buffer.size = flush_size();
        flush_buffer.x = calloc((size_t)flush_buffer.size, 1);
    }
    return flush_buffer.x && !attn_parallel(&where, flush_part, NULL, FLUSH_TASKS);
}

/* Seconds of each timed call, in their order; false when memory is short or a call failed. */
static bool sample_calls(job *j, void (*call)(void *), const timing_plan *plan, list *seconds) {
    double total = 0;
    int64_t before = seconds->n;
    for (int64_t i = 0; i < plan->warmup; i++) call(j);
    while (seconds->n - before < plan->iterations || total < plan->min_seconds) {
        seconds->x = grow(seconds->x, seconds->n, sizeof *seconds->x);
        if (j->c->v[COLD] && !flush_caches(j->c)) j->status = ATTN_ERR_MEMORY;
        double start = attn_seconds();
        call(j);
        total += seconds->x[seconds->n++] = attn_seconds() - start;
        keep_point();
        if (j->status || interrupted) break;
    }
    return !j->status && !interrupted;
}

/* A quantile of sorted numbers: linear between the two nearest ranks. */
static double quantile(const double *sorted, int64_t n, double share) {
    double at = share * (double)(n - 1);
    int64_t low = (int64_t)at, high = low + 1 < n ? low + 1 : low;
    return n ? sorted[low] + (at - (double)low) * (sorted[high] - sorted[low]) : NAN;
}

/* How many of n sorted samples lie outside of an interval that holds the median in 95 of 100 runs,
 * on either side: the most for which n coins fall heads no more often in 2.5 of 100 throws. Five and
 * fewer hold it less often, all of them. */
enum { FEWEST_OF_INTERVAL = 6 };

static int64_t outside_median(int64_t n) {
    if (n > 1000) return (int64_t)((double)n / 2 - 0.98 * sqrt((double)n));
    double chance = ldexp(1, (int)-n), sum = chance; /* of k heads; of at most k */
    int64_t k = 0;
    for (; sum <= 0.025; k++) {
        chance *= (double)(n - k) / (double)(k + 1);
        sum += chance;
    }
    return k ? k - 1 : 0; /* k heads are no longer so rare */
}

/* What the samples of a row say, and its rates: by their median, like all rates and ratios. */
static void summarize(row *r, list seconds, const problem *p, double tokens) {
    int64_t n = seconds.n, outside = outside_median(n);
    double *sorted = malloc((size_t)n * sizeof *sorted), sum = 0, square = 0;
    if (!sorted || !n) {
        free(sorted);
        return;
    }
    memcpy(sorted, seconds.x, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, by_size);
    for (int64_t i = 0; i < n; i++) sum += sorted[i];
    for (int64_t i = 0; i < n; i++)
        square += (sorted[i] - sum / (double)n) * (sorted[i] - sum / (double)n);
    double median = quantile(sorted, n, 0.5), per = median > 0 ? 1 / median : NAN;
    r->iterations = n;
    r->mean_ms = 1e3 * sum / (double)n;
    if (n > 1) r->stddev_ms = 1e3 * sqrt(square / (double)(n - 1)); /* one call has none */
    r->min_ms = 1e3 * sorted[0], r->max_ms = 1e3 * sorted[n - 1];
    r->p50_ms = r->kernel_ms = 1e3 * median;
    if (n >= FEWEST_OF_INTERVAL)
        r->p50_low_ms = 1e3 * sorted[outside], r->p50_high_ms = 1e3 * sorted[n - 1 - outside];
    r->p95_ms = 1e3 * quantile(sorted, n, 0.95), r->p99_ms = 1e3 * quantile(sorted, n, 0.99);
    r->ops_per_s = per, r->tokens_per_s = tokens * per;
    r->gflops = p->flops * per * 1e-9, r->gbytes_per_s = p->bytes * per * 1e-9;
    free(sorted);
}

static void note_outliers(row *r) {
    if (r->max_ms > 3 * r->p50_ms && r->max_ms - r->p50_ms > 0.05)
        remark(
            r, NULL, "outlier: the slowest call took %.1f times the median", r->max_ms / r->p50_ms);
    if (r->first_run_ms > 3 * r->p50_ms && r->first_run_ms - r->p50_ms > 0.2)
        remark(r, NULL, "slow first run: %.1f times the median", r->first_run_ms / r->p50_ms);
}

static double workspace_of(const row *r) {
    return r->workspace_bytes > 0 ? (double)r->workspace_bytes : 0;
}

/* What bounds a call: the larger of the times that its arithmetic takes at the peak and that its
 * traffic takes at the bandwidth; or neither, where more than half of it is what an empty call
 * takes too, which is no more than the work leaves of it: threads that are awake in the call may
 * sleep between empty ones. Traffic is each tensor once and the workspace, which is written and
 * read: the scores of standard are there. */
static const char *bound_of(const row *r, double pairs, double peak, double bandwidth) {
    double arithmetic = operations(r->flops, pairs) / peak,
           traffic = (r->bytes + 2 * workspace_of(r)) / bandwidth;
    /* not all of a plan's workspace need be written */
    const double work_ms =
        1e3 * (bandwidth > 0 ? fmax(arithmetic, r->bytes / bandwidth) : arithmetic);
    const bool idle = r->overhead_ms > r->p50_ms / 2 && r->p50_ms - work_ms > r->p50_ms / 2;
    return idle                    ? "overhead"
           : !(bandwidth > 0)      ? "" /* no memory to measure it in */
           : arithmetic >= traffic ? "compute"
                                   : "bandwidth";
}

/* Where the row stands under the measured roofline. Peak and bandwidth are sampled before and
 * after; the larger counts. */
static void place_under_roofline(row *r, double peak, double bandwidth) {
    static const double most_disturbed = 3;
    r->peak_gflops = peak;
    if (bandwidth > 0) r->bandwidth_gbs = bandwidth;
    r->peak_fraction = r->gflops / peak;
    r->bandwidth_fraction = bandwidth > 0 ? r->gbytes_per_s / bandwidth : NAN;
    if (r->peak_fraction > 1) {
        remark(r, NULL, "no share of the peak: %.2f of the peak sampled, %s", r->peak_fraction,
            r->peak_fraction < most_disturbed
                ? "the machine was disturbed"
                : "more than vectors can: matrix units, or work that is not done");
        r->peak_fraction = NAN;
    }
    if (r->bandwidth_fraction > 1) {
        remark(r, NULL,
            "no share of the bandwidth: %.2f of that sampled, the machine was disturbed",
            r->bandwidth_fraction);
        r->bandwidth_fraction = NAN;
    }
}

/* Reading so many bytes, but not above what no cache holds. */
static double bandwidth_of(const bench_case *c, double bytes) {
    double most = 1 << 30;
    if (c->v[COLD]) /* that of memory: no cache has any of it */
        bytes = fmax(bytes, (double)flush_size());
    return attn_bandwidth_gbytes(
        (size_t)(bytes < most ? bytes : most) + 64, (int32_t)c->v[THREADS]);
}

static double bandwidth_now(const job *j) { return bandwidth_of(j->c, j->p->bytes); }

static void no_work(void *arg, int64_t i) { (void)arg, (void)i; }

static void wake_threads(void *user) {
    const job *j = user;
    attn_parallel(&j->p->d, no_work, NULL, j->c->v[THREADS]);
}

/* What a call takes that has next to nothing to compute: one query, key and head of the same case,
 * on the same backend; and the waking of the threads, where the case's own call wakes them. */
static double measure_overhead(const job *j) {
    enum { CALLS = 15 };
    attn_timing_opts opts = {.warmup = 3, .iterations = CALLS};
    bench_case one = *j->c;
    attn_timing call = {0}, wake = {0};
    job tiny = *j;
    row scratch = *j->r;
    problem p;
    one.v[BATCH] = one.v[SEQ] = one.v[KV] = one.v[HEADS] = one.v[KV_HEADS] = 1;
    one.v[MASK] = NO_MASK, one.v[PAGE] = one.v[APPEND] = 0, one.v[DATA] = RANDOM;
    if (!problem_make(&one, NULL, &p)) return NAN;
    p.d.backend = j->p->d.backend;
    tiny.p = &p, tiny.c = &one, tiny.r = &scratch, tiny.kernel_count = 0;
    attn_plan plan;
    bool good = !plan_call(&p, j->pass, &plan) &&
                (j->gpu || give_workspace(&p, plan.workspace_size)) &&
                (j->pass != BWD || !forward_before(&p)) &&
                !attn_time(timed_call, &tiny, &opts, &call) && !tiny.status;
    if (good && j->wakes) good = !attn_time(wake_threads, (void *)(uintptr_t)j, &opts, &wake);
    problem_free(&p);
    return good ? call.p50 + wake.p50 : NAN;
}

/* The peak of the best ISA of this machine, whatever ATTN_ISA forces. */
static double best_peak(int32_t dtype, int32_t threads) {
    const attn__kernels *forced = attn__machine()->isa, *best;
    uint32_t needs;
    size_t i = 0;
    while ((best = attn__isa_at(i++, &needs)) && needs & ~attn__machine()->has) {}
    attn__machine_known.isa = best;
    const double peak = attn_peak_gflops(dtype, threads);
    attn__machine_known.isa = forced;
    return peak;
}

/* The type of a call's products: its own, if keys and values have it, too. */
static int32_t product_type(const bench_case *c) {
    return c->v[DTYPE] == c->v[KV_DTYPE] ? (int32_t)c->v[DTYPE] : ATTN_F32;
}

static double peak_now(const bench_case *c) {
    return best_peak(product_type(c), (int32_t)c->v[THREADS]);
}

/* The peak of the ISA that is forced: the largest of the samples of this type on so many threads,
 * before and now, and of up to three now where a row was faster. */
static double forced_peak(const bench_case *c, double reached) {
    static struct {
        int64_t type, threads;
        double peak;
    } known;
    const int32_t type = product_type(c);
    if (known.type != type || known.threads != c->v[THREADS])
        known.type = type, known.threads = c->v[THREADS], known.peak = 0;
    for (int i = 0; i < 3 && (!i || reached > known.peak); i++)
        known.peak = fmax(known.peak, attn_peak_gflops(type, (int32_t)c->v[THREADS]));
    return known.peak;
}

/* What ATTN_ISA forces has a peak of its own. */
static void note_forced_isa(row *r) {
    const char *isa = getenv("ATTN_ISA");
    if (isa && *isa)
        remark(r, NULL, "ATTN_ISA=%s: the peak of this ISA is %.1f GFLOP/s", isa,
            forced_peak(r->c, r->gflops));
}

/* As many keys as queries, of the same heads, dims and type, none of them hidden. */
static bool is_plain(const int64_t *v) {
    return v[KV] == v[SEQ] && !v[CAUSAL] && !v[MASK] && v[KV_HEADS] == v[HEADS] &&
           v[V_DIM] == v[DIM] && v[LEFT] < 0 && v[RIGHT] < 0 && !v[PAGE] && !v[APPEND] &&
           !v[COLD] && v[KV_DTYPE] == v[DTYPE];
}

static bool is_published(const struct published *p, const row *r) {
    const int64_t *v = r->c->v;
    bool same_shape = p->batch == v[BATCH] && p->seq == v[SEQ] && p->heads == v[HEADS] &&
                      p->dim == v[DIM] && p->pass == v[PASS] && p->project == v[PROJECT];
    bool same_backend = p->backend ? !strcmp(p->backend, r->backend) : !is_gpu(r);
    bool same_data = v[DATA] == p->data && v[DTYPE] == p->dtype;
    return !strcmp(p->suite, r->suite) && same_shape && same_backend && same_data && is_plain(v);
}

/* Whether theirs of published_memory[i] is of the row's shape. */
static bool is_published_memory(int i, const row *r) {
    const int64_t *v = r->c->v;
    return !strcmp(r->suite, published_memory[i].suite) && v[SEQ] == published_memory[i].seq &&
           v[BATCH] == 1 && v[HEADS] == 32 && v[DIM] == 64 && v[DTYPE] == ATTN_F16 && is_plain(v);
}

/* Beside what is right alone. */
static void find_published(row *r) {
    for (int i = 0; i < COUNT(published) && row_ok(r); i++)
        if (is_published(&published[i], r)) {
            r->theirs = published[i].ms;
            r->their_tokens_per_s = published[i].tokens_per_s;
            r->ratio = r->theirs / r->p50_ms;
        }
}

/* The samples of a row, in ms; the row owns them from here on. */
static void keep_samples(row *r, list seconds) {
    for (int64_t i = 0; i < seconds.n; i++) seconds.x[i] *= 1e3;
    r->samples_ms = seconds;
}

/* The median without a workspace given. */
static void time_total(job *j, void (*call)(void *), int64_t calls) {
    row whole = null_row();
    list seconds = {NULL, 0};
    bool slow = j->r->p50_ms > 100;
    timing_plan plan = {!slow, slow ? 1 : calls / 4 > FEWEST_CALLS ? calls / 4 : FEWEST_CALLS, 0};
    take_workspace(j->p);
    if (sample_calls(j, call, &plan, &seconds)) {
        summarize(&whole, seconds, j->p, 0);
        j->r->total_ms = whole.p50_ms;
    }
    free(seconds.x);
}

/* What is to be timed, and how often; the machine sampled before. The call was verified. */
static void start_timing(job *j, void (*call)(void *), double tokens) {
    row *r = j->r;
    const int64_t *v = j->c->v;
    int64_t n = calls_of(j->b, j->c, r->backend, r->first_run_ms * 1e-3 + 1e-7);
    j->peak = j->gpu || j->p->promise ? NAN : peak_now(j->c);
    j->bandwidth = j->gpu || j->p->promise || j->b->opt.repeated ? NAN : bandwidth_now(j);
    /* calls that are long are not warmed up unless the user says so */
    bool warm = j->b->opt.user.count[WARMUP] || !(j->reference || n < v[ITERATIONS]);
    j->plan = (timing_plan){warm ? v[WARMUP] : 0, n, j->reference ? 0 : j->b->opt.min_time};
    j->call = call;
    j->tokens = tokens;
    r->flops = j->p->flops, r->bytes = j->p->bytes;
    if (!j->b->opt.repeated) r->overhead_ms = 1e3 * measure_overhead(j);
}

/* The calls of a row are timed in so many turns, between which those of the other backends of the
 * case have theirs: a machine that changes meanwhile changes for all of them. */
enum { TURNS = 8 };

static void time_turn(job *j, int turn, int turns) {
    int64_t n = j->plan.iterations + turns - 1; /* the first turn has a call, and the warm-up */
    bool is_long = j->r->first_run_ms > 50;     /* the others' turns do not cool it down */
    timing_plan share = {turn ? j->plan.warmup > 0 && !is_long : j->plan.warmup, (n - turn) / turns,
        j->plan.min_seconds / turns};
    if (!j->call || j->status || interrupted || !(share.iterations || share.min_seconds > 0))
        return;
    give_message(j->p, false); /* nobody reads about a call that is right */
    sample_calls(j, j->call, &share, &j->seconds);
    give_message(j->p, true);
}

/* The row of the calls timed: with a workspace given (kernel) and without (total). On the GPU,
 * kernel is its own clock and total the call with its copies. */
static void finish_timing(job *j) {
    row *r = j->r;
    void (*call)(void *) = j->call;
    if (!call) return;
    if (!j->status && !interrupted) last_call(j);
    j->call = NULL; /* it is finished once */
    if (j->status || interrupted) {
        free(j->seconds.x);
        if (strcmp(r->status, "failed")) failed(r, j->p, j->status);
        return;
    }
    summarize(r, j->seconds, j->p, j->tokens);
    note_outliers(r);
    keep_samples(r, j->seconds);
    if (r->p50_ms > 1 && j->c->v[SEQ] > 1)
        *rate_of(j->b, r->backend) = operations(j->p->flops, j->p->pairs) / r->p50_ms * 1e3;
    if (j->gpu) { /* the roofline is the CPU's, and a call from the host copies */
        r->total_ms = r->p50_ms;
        r->kernel_ms = 1e3 * kernel_median(j, r->iterations);
        return;
    }
    if (j->p->promise) return; /* the peak is of f32 products, and not all of these are */
    /* after the row, and again if it was disturbed */
    for (int i = 0; i < 3 && (!i || r->gflops > j->peak); i++)
        j->peak = fmax(j->peak, peak_now(j->c));
    for (int i = 0; i < 3 && !j->b->opt.repeated && (!i || r->gbytes_per_s > j->bandwidth); i++)
        j->bandwidth = fmax(j->bandwidth, bandwidth_now(j));
    place_under_roofline(r, j->peak, j->bandwidth);
    if (j->b->opt.repeated) return; /* samples and the peak beside them are all that is asked for */
    note_forced_isa(r);
    bool spills = 2 * workspace_of(r) > r->bytes; /* into a slower cache, or memory */
    double slower = spills ? bandwidth_of(j->c, r->bytes + workspace_of(r)) : j->bandwidth;
    snprintf(
        r->bound, sizeof r->bound, "%s", bound_of(r, j->p->pairs, j->peak * 1e9, slower * 1e9));
    if (!j->reference) time_total(j, call, j->plan.iterations);
}

static void time_calls(job *j, void (*call)(void *), double tokens) {
    start_timing(j, call, tokens);
    time_turn(j, 0, 1);
    finish_timing(j);
}

/* Verifies the call; it is timed in turns, or nothing is, which the row then says. */
static void start_time(job *j) {
    double one_call = operations(j->p->flops, j->p->pairs) / *rate_of(j->b, "reference");
    if (j->reference && one_call > REFERENCE_CALL_SECONDS && !j->b->opt.verify && !j->b->files)
        remark(j->r, "skipped", "the f64 reference would take about %.0f s a call", one_call);
    else if (first_call(j))
        start_timing(j, timed_call, (double)j->p->d.batch * (double)j->p->d.q_len);
}

static void measure_time(job *j) {
    start_time(j);
    time_turn(j, 0, 1);
    finish_timing(j);
    find_published(j->r);
}

/* All outputs in one buffer, to be compared bit by bit. */
static char *snapshot(const problem *p, size_t *size) {
    const size_t batch = (size_t)p->d.batch;
    call_output out[CALL_OUTPUTS];
    find_outputs(p, out);
    *size = 0;
    for (int i = 0; i < CALL_OUTPUTS; i++) *size += batch * out[i].bytes;
    char *copy = malloc(*size + 1), *to = copy;
    for (int i = 0; copy && i < CALL_OUTPUTS; to += batch * out[i++].bytes)
        if (out[i].bytes) memcpy(to, out[i].data, batch * out[i].bytes);
    return copy;
}

/* Whether a call of one sequence left what the snapshot has of sequence b of `batch`. */
static bool is_sequence(const problem *p, const char *bits, int64_t b, int64_t batch) {
    call_output out[CALL_OUTPUTS];
    bool same = true;
    find_outputs(p, out);
    for (int i = 0; i < CALL_OUTPUTS; bits += (size_t)batch * out[i++].bytes)
        if (out[i].bytes)
            same = same && !memcmp(out[i].data, bits + (size_t)b * out[i].bytes, out[i].bytes);
    return same;
}

/* Runs the case again under other circumstances and wants the same bits. */
static void same_bits(job *j, char *expected, size_t size, const char *circumstance) {
    size_t again;
    poison(j->p);
    attn_status s = run_pass(j->p, j->pass == BWD ? FWD_BWD : j->pass);
    char *copy = s ? NULL : snapshot(j->p, &again);
    if (s) failed(j->r, j->p, s);
    else if (!copy || again != size || memcmp(copy, expected, size))
        remark(j->r, "wrong", "other bits %s", circumstance);
    free(copy);
}

static char *first_bits(job *j, size_t *size) {
    poison(j->p);
    j->status = run_pass(j->p, j->pass == BWD ? FWD_BWD : j->pass);
    if (j->status) failed(j->r, j->p, j->status);
    return j->status ? NULL : snapshot(j->p, size);
}

static void measure_determinism(job *j) {
    size_t size;
    char *bits = first_bits(j, &size);
    for (int i = 0; bits && i < 3; i++) same_bits(j, bits, size, "on another run");
    free(bits);
}

static void measure_thread_count(job *j) {
    static const int32_t counts[] = {1, 2, 3, 5, 8};
    char circumstance[32];
    size_t size;
    char *bits = first_bits(j, &size);
    for (int i = 0; bits && i < COUNT(counts); i++) {
        j->p->d.threads = counts[i];
        snprintf(circumstance, sizeof circumstance, "with %d threads", counts[i]);
        same_bits(j, bits, size, circumstance);
    }
    free(bits);
}

/* Each sequence alone must have the bits that it has in the batch, in every output. */
static void measure_batching(job *j) {
    attn_desc *d = &j->p->d, whole = *d;
    attn_in *dout = &j->p->g.dout, whole_dout = *dout;
    size_t size;
    if (d->seq.block_table || attn__is_scaled(d->k.dtype)) {
        remark(j->r, "declined", "sequences are taken out of dense tensors alone");
        return;
    }
    char *bits = first_bits(j, &size);
    for (int64_t b = 0; bits && b < whole.batch; b++) {
        *d = whole;
        d->batch = 1;
        d->q.data = advance(whole.q.data, b * whole.q.stride[0], whole.q.dtype);
        d->k.data = advance(whole.k.data, b * whole.k.stride[0], whole.k.dtype);
        d->v.data = advance(whole.v.data, b * whole.v.stride[0], whole.v.dtype);
        dout->data = advance(whole_dout.data, b * whole_dout.stride[0], whole_dout.dtype);
        poison(j->p);
        attn_status s = run_pass(j->p, j->pass == BWD ? FWD_BWD : j->pass);
        if (s) failed(j->r, j->p, s);
        else if (!is_sequence(j->p, bits, b, whole.batch))
            remark(j->r, "wrong", "sequence %d alone has other bits than in the batch", (int)b);
    }
    *d = whole, *dout = whole_dout;
    free(bits);
}

/* least: -FLT_MAX; of lse, in which a row that sees no key has -infinity, that. */
static int64_t count_non_finite(const attn_out *t, int64_t elements, double least) {
    int64_t bad = 0, shape[4] = {1, 1, 1, elements};
    double *x = malloc((size_t)(elements + 1) * sizeof *x);
    attn_in src = {.data = t->data, .dtype = t->dtype};
    attn_out dst = {.data = x, .dtype = ATTN_F64};
    if (!x || attn_convert(shape, src, dst, NULL)) bad = elements;
    for (int64_t i = 0; x && i < elements && bad < elements; i++)
        bad += !(x[i] >= least && x[i] < INFINITY);
    free(x);
    return bad;
}

static void measure_finite(job *j) {
    const attn_desc *d = &j->p->d;
    const attn_out lse = {.data = d->lse, .stride = {d->heads * d->q_len}};
    const attn_out *out[] = {&d->o, &j->p->g.dq, &j->p->g.dk, &j->p->g.dv, &lse};
    int64_t bad = 0;
    if (!first_call(j)) return;
    for (int i = 0; i < COUNT(out); i++)
        if (out[i]->data)
            bad += count_non_finite(
                out[i], d->batch * out[i]->stride[0], out[i] == &lse ? -INFINITY : -DBL_MAX);
    if (bad) remark(j->r, "wrong", "%lld elements are NaN or infinite", (long long)bad);
}

/* What the case's types lose against the f64 reference, and that it is what the rule allows.
 * 16-bit types are compared with f32 too: the same numbers before they were rounded, by
 * the same backend. */
static void measure_loss(job *j) {
    bench_case wide = *j->c;
    problem p;
    wide.v[DTYPE] = wide.v[KV_DTYPE] = ATTN_F32;
    if (!first_call(j) || j->c->v[DTYPE] == ATTN_F32 || !problem_make(&wide, NULL, &p)) return;
    const attn_desc *d = &j->p->d;
    int64_t n = d->batch * d->o.stride[0];
    double *narrow = malloc((size_t)n * 8), largest = 0, sum = 0;
    p.d.backend = d->backend;
    attn_status s = narrow ? attn_forward(&p.d) : ATTN_ERR_MEMORY;
    if (s) {
        remark(j->r, NULL, "not compared with f32: %s", attn_status_text(s));
    } else {
        attn_out all = {.data = d->o.data, .dtype = d->o.dtype};
        const float *o = p.d.o.data;
        widen(narrow, &all, 0, 0, 0, 1, n);
        for (int64_t i = 0; i < n; i++) {
            double loss = fabs(narrow[i] - (double)o[i]);
            largest = loss > largest ? loss : largest, sum += loss;
        }
        remark(j->r, NULL, "against f32 it loses up to %.2g, %.2g on average", largest,
            sum / (double)n);
    }
    free(narrow);
    problem_free(&p);
}

/* <dout, o> as a function of one element of q, k or v, by central differences through
 * the f64 reference. */
static double loss_at(
    const attn_desc *d, const double *dout, double *o, double *element_, double x) {
    double sum = 0, before = *element_;
    *element_ = x;
    attn_status s = attn_forward(d);
    *element_ = before;
    for (int64_t i = 0; i < d->batch * d->q_len * d->heads * d->v_dim; i++) sum += dout[i] * o[i];
    return s ? NAN : sum;
}

static void measure_gradient(job *j) {
    enum { PROBES = 24 };
    problem *p = j->p;
    attn_desc f = p->d;
    attn_in *in[] = {&f.q, &f.k, &f.v};
    const attn_out *out[] = {&p->g.dq, &p->g.dk, &p->g.dv};
    bool right = true;
    if (!first_call(j)) return;
    int64_t n = p->d.batch * p->d.o.stride[0];
    double *o = malloc((size_t)n * 8), *dout = malloc((size_t)n * 8), *x[3], worst = 0;
    attn_out wide_dout = {.data = (void *)(uintptr_t)p->g.dout.data, .dtype = p->g.dout.dtype};
    widen(dout, &wide_dout, 0, 0, 0, 1, n);
    for (int t = 0; t < 3; t++) {
        int64_t size = p->d.batch * in[t]->stride[0];
        attn_out from = {.data = (void *)(uintptr_t)in[t]->data, .dtype = in[t]->dtype};
        x[t] = malloc((size_t)size * 8);
        widen(x[t], &from, 0, 0, 0, 1, size);
        in[t]->data = x[t], in[t]->dtype = ATTN_F64;
    }
    f.o.data = o, f.o.dtype = ATTN_F64, f.backend = "reference", f.workspace = NULL,
    f.workspace_size = 0;
    for (int64_t k = 0; k < 3 * PROBES; k++) {
        int t = (int)(k % 3);
        int64_t at = (int64_t)(draw(11, (uint64_t)k) % (uint64_t)(p->d.batch * in[t]->stride[0]));
        double h = 1e-5, here = x[t][at], got;
        double expected = (loss_at(&f, dout, o, &x[t][at], here + h) -
                              loss_at(&f, dout, o, &x[t][at], here - h)) /
                          (2 * h);
        attn_out one = {
            .data = (char *)out[t]->data + attn__bytes(out[t]->dtype, at), .dtype = out[t]->dtype};
        widen(&got, &one, 0, 0, 0, 1, 1);
        double error = fabs(got - expected) / (1 + fabs(expected));
        error = isnan(error) ? INFINITY : error;
        worst = fmax(worst, error);
        /* the differences know nothing of the rounding of o, which the gradients follow */
        right = right && error <= 2e-6 + 4 * fmax(unit_of(p->d.o.dtype), unit_of(one.dtype));
    }
    j->r->max_abs_err = worst;
    j->r->rows_verified = 3 * PROBES;
    if (!right) remark(j->r, "wrong", "gradient differs from finite differences by %.3g", worst);
    for (int t = 0; t < 3; t++) free(x[t]);
    free(o);
    free(dout);
}

/* Memory of one call in a process of its own, through the allocator hook and by its peak resident
 * set. The process is this program, started anew: a fork alone has the heap of its parent. */
typedef struct footprint {
    attn_status status;
    int64_t now, peak, rss;
} footprint;

static void *counted_get(void *user, size_t size, size_t align) {
    footprint *f = user;
    void *p = aligned_get(size, align);
    if (!p) return NULL;
    f->now += (int64_t)size;
    f->peak = f->now > f->peak ? f->now : f->peak;
    return p;
}

static void counted_put(void *user, void *p, size_t size) {
    ((footprint *)user)->now -= p ? (int64_t)size : 0;
    aligned_put(p);
}

static footprint footprint_of(const bench_case *c, const char *backend) {
    footprint f = {ATTN_ERR_MEMORY, 0, 0, 0};
    attn_alloc counted = {counted_get, counted_put, &f};
    problem p;
    if (!problem_make(c, NULL, &p)) return f;
    p.d.backend = backend;
    p.d.alloc = &counted;
    f.status = run_pass(&p, c->v[PASS] == BWD ? FWD_BWD : c->v[PASS]);
    f.rss = peak_resident_bytes();
    problem_free(&p);
    return f;
}

/* What the child is started with: the backend, then the values of all axes. */
static void write_call(const job *j, char text[1024]) {
    int n = snprintf(text, 1024, "%s", j->r->backend);
    for (int a = 0; a < AXES; a++)
        n += snprintf(text + n, 1024 - (size_t)n, ",%lld", (long long)j->c->v[a]);
}

/* The child: its case from the command line, one line with its memory on stdout. */
static int print_footprint(const char *call) {
    char backend[32];
    bench_case c = {.suite = &suites[0]};
    const char *s = strchr(call, ',');
    snprintf(backend, sizeof backend, "%.*s", (int)strcspn(call, ","), call);
    for (int a = 0; a < AXES; a++, s = strchr(s + 1, ',')) {
        char *end = NULL;
        c.v[a] = s ? strtoll(s + 1, &end, 10) : 0;
        if (!s || end == s + 1 || (*end && *end != ','))
            return refuse("--footprint %s: is between this program and itself", call);
    }
    footprint f = footprint_of(&c, backend);
    fprintf(document, "%d %lld %lld\n", (int)f.status, (long long)f.peak, (long long)f.rss);
    return fflush(document) ? EXIT_BAD : 0;
}

/* The same from a child process; false, said in the row, when that did not answer. */
static bool from_child(const job *j, footprint *f) {
    char call[1024];
    char self[4096];
    const char *argv[] = {self, "--footprint", call, "--plugin", j->b->opt.plugins, NULL};
    int status, ends[2];
    long long peak, rss;
    char answer[128] = "";
    write_call(j, call);
    if (!j->b->opt.plugins) argv[3] = NULL;
    if (!self_path(self) || !make_pipe(ends)) {
        remark(j->r, "failed", "no pipe to a process: %s", strerror(errno));
        return false;
    }
    bool ended = run_program(argv, -1, ends[1]); /* one short line waits in the pipe */
    close(ends[1]);
    ssize_t length = ended ? read(ends[0], answer, sizeof answer - 1) : 0;
    close(ends[0]);
    if (length < 1 || sscanf(answer, "%d %lld %lld", &status, &peak, &rss) != 3) {
        remark(j->r, "failed", "the process that runs this call alone did not answer");
        return false;
    }
    f->status = (attn_status)status, f->peak = peak, f->rss = rss;
    return true;
}

static void measure_memory(job *j) {
    footprint f = {ATTN_ERR_MEMORY, 0, 0, 0};
    row *r = j->r;
    if (j->gpu) /* a GPU's context does not survive a fork */
        f = footprint_of(j->c, r->backend);
    else if (!from_child(j, &f)) return;
    if (f.status) {
        remark(r, "failed", "%s", attn_status_text(f.status));
        return;
    }
    note_kernel(j);
    r->workspace_bytes = f.peak;
    r->peak_rss_bytes = j->gpu ? NO_INT : f.rss;
    for (int i = 0; i < COUNT(published_memory); i++)
        if (is_published_memory(i, r)) {
            const bool flash = !strcmp(r->backend, "flash");
            if (flash || !strcmp(r->backend, "standard"))
                remark(r, NULL, "theirs: %.1f MiB",
                    flash ? published_memory[i].flash : published_memory[i].standard);
        }
    r->matrix_share = (double)f.peak / score_bytes(j->c);
    r->bytes = tensor_bytes(j->c);
}

enum { PREFILLS = 5 };

static double median(double *x, int64_t n) {
    qsort(x, (size_t)n, sizeof *x, by_size);
    return n ? (x[(n - 1) / 2] + x[n / 2]) / 2 : NAN;
}

static double deviation(const double *x, int64_t n) {
    double mean = 0, sum = 0;
    for (int64_t i = 0; i < n; i++) mean += x[i] / (double)n;
    for (int64_t i = 0; i < n; i++) sum += (x[i] - mean) * (x[i] - mean);
    return n > 1 ? sqrt(sum / (double)(n - 1)) : NAN;
}

/* The prefill of the whole context, up to PREFILLS times within a second: how often, 0 when it does
 * not run, said in the row. */
static int64_t time_prefills(job *j, const bench_case *prefill, double seconds[PREFILLS]) {
    problem p;
    attn_plan plan;
    int64_t n = 0;
    if (!problem_make(prefill, NULL, &p)) return 0;
    p.d.backend = j->p->d.backend;
    job call = {.b = j->b, .c = prefill, .p = &p, .r = j->r, .pass = FWD};
    call.status = plan_call(&p, FWD, &plan);
    if (!call.status && (double)plan.workspace_size > 0.9 * available_memory())
        call.status = ATTN_ERR_MEMORY;
    remember_inputs(&p);
    for (double all = 0; !call.status && n < PREFILLS && !(all > 1) && !interrupted; n++) {
        seconds[n] = plain_call(&call, timed_call);
        all += seconds[n];
    }
    if (!call.status && !interrupted && !is_trusted(j)) {
        const bool right = row_ok(j->r);
        inspect_call(&call);
        verify_call(&call);
        if (right && !row_ok(j->r)) remark(j->r, NULL, "that was the prefill");
    }
    if (call.status) remark(j->r, NULL, "no prefill: %s", attn_status_text(call.status));
    problem_free(&p);
    return call.status ? 0 : n;
}

/* Time to first token: the prefill of the whole context and one step. Then the steps,
 * one token each. */
static void measure_generate(job *j) {
    bench_case prefill = *j->c;
    double seconds[PREFILLS];
    int64_t n = 0;
    prefill.v[SEQ] = prefill.v[KV], prefill.v[PASS] = FWD;
    double pairs = (double)prefill.v[KV] * (double)prefill.v[KV] / 2 *
                   (double)(prefill.v[HEADS] * prefill.v[BATCH]),
           flops = 2 * pairs * (double)(prefill.v[DIM] + prefill.v[V_DIM]),
           estimate = operations(flops, pairs) / *rate_of(j->b, j->r->backend);
    const bool generates = j->pass == FWD, slow = j->reference && estimate > REFERENCE_CALL_SECONDS;
    if (generates && slow)
        remark(j->r, NULL, "no prefill: the reference would take about %.0f s", estimate);
    else if (generates) n = time_prefills(j, &prefill, seconds);
    measure_time(j);
    j->r->ttft_stddev_ms = hypot(1e3 * deviation(seconds, n), j->r->stddev_ms);
    j->r->ttft_ms = 1e3 * median(seconds, n) + j->r->p50_ms;
}

/* An attention module, AdaAttn's or gemma's: x [tokens, embed] through three projections,
 * attention, and the output projection; the backward also gives the gradients of x and of the four
 * weights. The products are f32; between them and an attention in 16 bits stands a conversion. */
typedef void (*blas_sgemm)(int order, int ta, int tb, int m, int n, int k, float alpha,
    const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);
enum { OF_Q, OF_K, OF_V, OF_O, PROJECTIONS };
typedef struct module {
    int64_t tokens, embed;
    int64_t width[PROJECTIONS]; /* of a token's q, k, v and o */
    int32_t threads;
    float *x, *w[PROJECTIONS], *y, *dy, *dx, *dw[PROJECTIONS];
    attn_out part[PROJECTIONS], grad[PROJECTIONS];     /* what the attention reads and writes */
    float *wide[PROJECTIONS], *wide_grad[PROJECTIONS]; /* the same in f32: itself, or a copy */
    blas_sgemm sgemm;                                  /* of OpenBLAS */
} module;

/* c[m,n] = (or +=) a[m,k] b[k,n]; all are dense, a transposed one is stored as its transpose. */
typedef struct product {
    int64_t m, n, k;
    const float *a, *b;
    float *c;
    bool a_transposed, b_transposed, add;
} product;

typedef struct product_job {
    const product *p;
    blas_sgemm sgemm;
} product_job;
enum { PRODUCT_ROWS = 64 }; /* of a task */

/* Some rows of a product, by OpenBLAS on this thread alone: the threads are ours. */
static void product_task(void *arg, int64_t task) {
    enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112 };
    const product_job *j = arg;
    const product *p = j->p;
    int64_t first = task * PRODUCT_ROWS, rows = min64(PRODUCT_ROWS, p->m - first);
    j->sgemm(ROW_MAJOR, p->a_transposed ? TRANSPOSED : PLAIN, p->b_transposed ? TRANSPOSED : PLAIN,
        (int)rows, (int)p->n, (int)p->k, 1, p->a + first * (p->a_transposed ? 1 : p->k),
        (int)(p->a_transposed ? p->m : p->k), p->b, (int)(p->b_transposed ? p->k : p->n), p->add,
        p->c + first * p->n, (int)p->n);
}

static void multiply(const module *w, const product *p) {
    product_job j = {p, w->sgemm};
    attn_desc where = {.threads = w->threads};
    attn_parallel(&where, product_task, &j, (p->m + PRODUCT_ROWS - 1) / PRODUCT_ROWS);
}

/* Width of what a projection reads; it gives `projection_outputs`. */
static int64_t projection_inputs(const module *w, int part) {
    return part == OF_O ? w->width[part] : w->embed;
}

static int64_t projection_outputs(const module *w, int part) {
    return part == OF_O ? w->embed : w->width[part];
}

/* y[tokens,outputs] = x[tokens,inputs] w[outputs,inputs]^T */
static void project(const module *w, int part, const float *x, float *y) {
    product p = {.m = w->tokens,
        .n = projection_outputs(w, part),
        .k = projection_inputs(w, part),
        .a = x,
        .b = w->w[part],
        .c = y,
        .b_transposed = true};
    multiply(w, &p);
}

/* From dy the gradients of x, which are added up where `add`, and of the weight. */
static void project_back(
    const module *w, int part, const float *x, const float *dy, float *dx, bool add) {
    int64_t inputs = projection_inputs(w, part), outputs = projection_outputs(w, part);
    product to_input = {
        .m = w->tokens, .n = inputs, .k = outputs, .a = dy, .b = w->w[part], .c = dx, .add = add};
    product to_weight = {.m = outputs,
        .n = inputs,
        .k = w->tokens,
        .a = dy,
        .b = x,
        .c = w->dw[part],
        .a_transposed = true};
    multiply(w, &to_input);
    multiply(w, &to_weight);
}

/* n terms of a sum, `x_step` and `y_step` apart, and their sizes. */
typedef struct exact_sum {
    double sum, size;
} exact_sum;

static void sum_terms(
    exact_sum *to, int64_t n, const float *x, int64_t x_step, const float *y, int64_t y_step) {
    for (int64_t e = 0; e < n; e++) {
        double term = (double)x[e * x_step] * (double)y[e * y_step];
        to->sum += term, to->size += fabs(term);
    }
}

static bool is_sum(const exact_sum *exact, int64_t terms, float got) {
    return fabs(exact->sum - (double)got) <= (double)terms * 0x1p-24 * exact->size + 0x1p-100;
}

/* Some elements of what the products gave, against f64 sums: the four projections, and of the
 * backward dx, the four dw and dout. */
static bool check_products(const module *w, int64_t pass) {
    int64_t embed = w->embed, wo = w->width[OF_O];
    bool right = true;
    for (uint64_t s = 0; s < 64 && right; s++) {
        int64_t i = (int64_t)(draw(31, s) % (uint64_t)w->tokens),
                j = (int64_t)(draw(32, s) % (uint64_t)embed), terms = 0;
        exact_sum y = {0, 0}, dx = {0, 0}, dw = {0, 0}, dout = {0, 0};
        for (int t = OF_Q; t <= OF_V; t++) {
            int64_t width = w->width[t], k = (int64_t)(draw(33, s) % (uint64_t)width);
            exact_sum part = {0, 0}, dpart = {0, 0};
            sum_terms(&part, embed, w->x + i * embed, 1, w->w[t] + k * embed, 1);
            right = right && is_sum(&part, embed, w->wide[t][i * width + k]);
            if (pass == FWD) continue;
            sum_terms(&dpart, w->tokens, w->wide_grad[t] + k, width, w->x + j, embed);
            right = right && is_sum(&dpart, w->tokens, w->dw[t][k * embed + j]);
            sum_terms(&dx, width, w->wide_grad[t] + i * width, 1, w->w[t] + j, embed);
            terms += width;
        }
        int64_t k = (int64_t)(draw(34, s) % (uint64_t)wo);
        sum_terms(&y, wo, w->wide[OF_O] + i * wo, 1, w->w[OF_O] + j * wo, 1);
        right = right && is_sum(&y, wo, w->y[i * embed + j]);
        if (pass == FWD) continue;
        sum_terms(&dw, w->tokens, w->dy + j, embed, w->wide[OF_O] + k, wo);
        sum_terms(&dout, embed, w->dy + i * embed, 1, w->w[OF_O] + k, wo);
        right = right && is_sum(&dw, w->tokens, w->dw[OF_O][j * wo + k]) &&
                is_sum(&dout, embed, w->wide_grad[OF_O][i * wo + k]) &&
                is_sum(&dx, terms, w->dx[i * embed + j]);
    }
    return right;
}

/* Between a part of the attention and its f32 copy; nothing where they are one. */
static void convert_part(
    const module *w, const attn_out *part, float *wide, int64_t width, bool widens) {
    int64_t shape[4] = {1, w->tokens, 1, width};
    attn_desc where = {.threads = w->threads};
    attn_in narrow_in = {.data = part->data, .dtype = part->dtype};
    attn_out narrow_out = {.data = part->data, .dtype = part->dtype};
    if (part->data != wide && widens)
        attn_convert(shape, narrow_in, (attn_out){.data = wide}, &where);
    else if (part->data != wide) attn_convert(shape, (attn_in){.data = wide}, narrow_out, &where);
}

static void module_forward(const module *w, const problem *p, attn_status *s) {
    for (int i = OF_Q; i <= OF_V; i++) {
        project(w, i, w->x, w->wide[i]);
        convert_part(w, &w->part[i], w->wide[i], w->width[i], false);
    }
    *s = run_forward(p);
    convert_part(w, &w->part[OF_O], w->wide[OF_O], w->width[OF_O], true);
    project(w, OF_O, w->wide[OF_O], w->y);
}

static void module_backward(const module *w, const problem *p, attn_status *s) {
    project_back(w, OF_O, w->wide[OF_O], w->dy, w->wide_grad[OF_O], false);
    convert_part(w, &w->grad[OF_O], w->wide_grad[OF_O], w->width[OF_O], false);
    *s = run_backward(p);
    for (int i = OF_Q; i <= OF_V; i++) {
        convert_part(w, &w->grad[i], w->wide_grad[i], w->width[i], true);
        project_back(w, i, w->x, w->wide_grad[i], w->dx, i > OF_Q);
    }
}

static void module_call(void *user) {
    job *j = user;
    if (!interrupted && !j->status && j->pass != BWD) module_forward(j->module, j->p, &j->status);
    if (!interrupted && !j->status && j->pass != FWD) module_backward(j->module, j->p, &j->status);
}

/* The product of OpenBLAS and its name; NULL, and in `name` why, where there is none. It falls back
 * to SSE3 on processors younger than itself: it is told the family of ours, unless the user did. */
static blas_sgemm find_openblas(char name[192]) {
    if (strcmp(attn_isa(), "portable"))
        set_environment("OPENBLAS_CORETYPE", strcmp(attn_isa(), "avx512") ? "HASWELL" : "SKYLAKEX");
    void *library = library_open(OPENBLAS);
    void *symbol[3] = {NULL, NULL, NULL};
    const char *const names[] = {
        "cblas_sgemm", "openblas_set_num_threads", "openblas_get_corename"};
    blas_sgemm sgemm = NULL;
    void (*set_threads)(int) = NULL;
    char *(*core)(void) = NULL;
    bool found = library != NULL;
    for (int i = 0; i < 3 && found; i++)
        found = (symbol[i] = library_symbol(library, names[i])) != NULL;
    if (!found) {
        snprintf(name, 192, "%s", library_error());
        return NULL;
    }
    /* C has no cast from an object pointer to a function pointer */
    memcpy(&sgemm, &symbol[0], sizeof sgemm);
    memcpy(&set_threads, &symbol[1], sizeof set_threads);
    memcpy(&core, &symbol[2], sizeof core);
    set_threads(1); /* the threads of the description call it */
    snprintf(name, 192, "OpenBLAS %.40s", core());
    return sgemm;
}

/* An input of the call as something that the projections write. */
static attn_out written(const attn_in *t) {
    attn_out out = {.data = (void *)(uintptr_t)t->data, .dtype = t->dtype};
    return out;
}

/* The module's tensors, beside those of the problem; its memory is the problem's. */
static void make_module(module *w, problem *p, const bench_case *c) {
    const int64_t *v = c->v;
    bool appends = v[APPEND];
    w->tokens = v[BATCH] * v[SEQ], w->embed = v[HEADS] * v[DIM], w->threads = (int32_t)v[THREADS];
    w->width[OF_Q] = v[HEADS] * v[DIM], w->width[OF_K] = v[KV_HEADS] * v[DIM];
    w->width[OF_V] = v[KV_HEADS] * v[V_DIM], w->width[OF_O] = v[HEADS] * v[V_DIM];
    w->part[OF_Q] = written(&p->d.q), w->part[OF_O] = p->d.o;
    w->part[OF_K] = written(appends ? &p->d.append.k : &p->d.k);
    w->part[OF_V] = written(appends ? &p->d.append.v : &p->d.v);
    w->grad[OF_Q] = p->g.dq, w->grad[OF_K] = p->g.dk, w->grad[OF_V] = p->g.dv;
    w->grad[OF_O] = written(&p->g.dout);
    w->x = tensor(p, c, w->tokens * w->embed, ATTN_F32, TO_DOUT, 20);
    w->dy = tensor(p, c, w->tokens * w->embed, ATTN_F32, TO_DOUT, 21);
    w->y = own(p, w->tokens * w->embed * 4);
    w->dx = v[PASS] == FWD ? NULL : own(p, w->tokens * w->embed * 4);
    for (int i = 0; i < PROJECTIONS; i++) {
        int64_t size = w->width[i] * w->embed, bytes = w->tokens * w->width[i] * 4;
        w->w[i] = tensor(p, c, size, ATTN_F32, TO_DOUT, 22 + i);
        w->dw[i] = v[PASS] == FWD ? NULL : own(p, size * 4);
        for (int64_t e = 0; w->w[i] && e < size; e++)
            w->w[i][e] *= (float)(1 / sqrt((double)w->embed));
        w->wide[i] = w->part[i].dtype ? own(p, bytes) : w->part[i].data;
        w->wide_grad[i] = w->grad[i].dtype ? own(p, bytes) : w->grad[i].data;
    }
}

static void measure_module(job *j) {
    const int64_t *v = j->c->v;
    char blas[192];
    module w = {.sgemm = NULL};
    row *r = j->r;
    problem *p = j->p;
    int mark = p->owned_count;
    if (!attn__is_float((int32_t)v[KV_DTYPE]) || v[LAYOUT] || v[PAGE] ||
        (v[KV] != v[SEQ] && !v[APPEND])) {
        remark(r, "declined",
            "the module with projections is self-attention, [B,S,H,D], its cache "
            "neither paged nor quantised");
        return;
    }
    w.sgemm = find_openblas(blas);
    if (!w.sgemm) {
        remark(r, "declined", "the projections need OpenBLAS: %s", blas);
        return;
    }
    make_module(&w, p, j->c);
    if (p->failed) {
        failed(r, p, ATTN_ERR_MEMORY);
        return;
    }
    size_t used = strlen(r->kernel);
    snprintf(r->kernel + used, sizeof r->kernel - used, " + %s", blas);
    j->module = &w;
    double start = attn_seconds();
    module_forward(&w, p, &j->status);
    if (j->pass == BWD) start = attn_seconds();
    if (!j->status && j->pass != FWD) module_backward(&w, p, &j->status);
    const double first_run_ms = 1e3 * (attn_seconds() - start);
    if (!j->status && !check_products(&w, j->pass))
        remark(r, "wrong", "a product of the module is wrong");
    double attention = p->flops, bytes = p->bytes,
           times = v[PASS] == FWD   ? 1
                   : v[PASS] == BWD ? 2
                                    : 3;
    if (!j->status && row_ok(r) && first_call(j)) {
        p->bytes = module_bytes(j->c);
        p->flops += times * 2 * (double)w.tokens * weights_of(j->c);
        r->first_run_ms = first_run_ms; /* of all of it, as the calls that are timed */
        time_calls(j, module_call, (double)w.tokens);
    }
    p->flops = attention, p->bytes = bytes;
    find_published(r);
    take_workspace(p);
    disown(p, mark);
}

/* Of a head: the entropy of its rows, from the lse of the call, which is the running sum of
 * exp(score); the share of keys that a row could go without, had the others to hold 99% of its
 * weight. Means of sampled rows. */
typedef struct head_metrics {
    double entropy, sparsity;
} head_metrics;

static int by_weight(const void *a, const void *b) { return by_size(b, a); }

static void add_row_metrics(
    const problem *p, int64_t b, int64_t h, int64_t i, double *weight, head_metrics *to) {
    const attn_desc *d = &p->d;
    const double lse = (double)d->lse[(b * d->heads + h) * d->q_len + i],
                 scale = 1 / sqrt((double)d->head_dim);
    const char *q = row_in(&d->q, b, i, h);
    int64_t first, last, n = 0, kept = 0;
    double held = 0;
    visible(d, i + d->kv_len - d->q_len, &first, &last);
    for (int64_t j = first; j <= last; j++, n++) {
        const char *k = row_in(&d->k, b, j, h / (d->heads / d->kv_heads));
        double score = 0;
        for (int64_t e = 0; e < d->head_dim; e++)
            score += attn__ref_read(q, d->q.dtype, e) * attn__ref_read(k, d->k.dtype, e);
        score *= scale;
        weight[n] = exp(score - lse);
        to->entropy += weight[n] * (lse - score);
    }
    qsort(weight, (size_t)n, sizeof *weight, by_weight);
    while (kept < n && held < 0.99) held += weight[kept++];
    to->sparsity += n ? 1 - (double)kept / (double)n : 0;
}

/* AdaAttn's metrics of the data, by the call of each mode: entropy of each head, sparsity; what the
 * mode did, which precision it switched and the effective rank are in the note of every row. */
static void measure_metrics(job *j) {
    enum { ROWS = 32, NAMED_HEADS = 8 };
    const problem *p = j->p;
    const attn_desc *d = &p->d;
    char text[96] = "";
    double sparsity = 0;
    if (!first_call(j)) return;
    if (d->mask.data || d->seq.block_table || attn__is_scaled(d->k.dtype)) {
        remark(j->r, "declined", "metrics are of dense calls without a mask");
        return;
    }
    double *weight = malloc((size_t)d->kv_len * sizeof *weight);
    for (int64_t h = 0; h < d->heads && weight; h++) {
        head_metrics sum = {0, 0};
        for (uint64_t n = 0; n < ROWS; n++)
            add_row_metrics(p, (int64_t)(draw(51, n) % (uint64_t)d->batch), h,
                (int64_t)(draw(52, n) % (uint64_t)d->q_len), weight, &sum);
        sparsity += sum.sparsity / ROWS;
        if (h < NAMED_HEADS)
            snprintf(text + strlen(text), sizeof text - strlen(text), " %.2f", sum.entropy / ROWS);
    }
    free(weight);
    remark(j->r, NULL, "entropy of heads%s of %.2f, sparsity %.2f", text, log((double)d->kv_len),
        sparsity / (double)d->heads);
}

/* In the order of the words of the axis "measure". */
static void (*const measures[])(job *) = {
    measure_time,
    measure_determinism,
    measure_thread_count,
    measure_batching,
    measure_finite,
    measure_gradient,
    measure_loss,
    measure_memory,
    measure_generate,
    measure_module,
    measure_metrics,
};

/* =================================================================================== >>run ==== */
/* Why a backend does not take a call: its line of plan->why, or the status. */
static void explain(const attn_plan *plan, const char *backend, attn_status s, char text[256]) {
    size_t length = strlen(backend);
    for (const char *line = plan->why; line && *line;
        line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (!strncmp(line, backend, length) && line[length] == ':') {
            line += length + 1 + strspn(line + length + 1, " ");
            if (!*line || *line == '\n') break; /* it does not say why */
            snprintf(text, 256, "%.*s", (int)strcspn(line, "\n"), line);
            return;
        }
    snprintf(text, 256, "%s", attn_status_text(s));
}

/* No machine takes what is too large, a backend need not take the rest. */
static const char *refusal_of(attn_status s) {
    return s == ATTN_ERR_TOO_LARGE || s == ATTN_ERR_OVERFLOW ? "refused" : "declined";
}

/* Whether the backend takes the case and it fits in memory, beside its tensors or with those that are
 * there already; fills what the plan says. Touches no tensor. */
static bool plan_row(const bench_case *c, const char *backend, bool made, row *r) {
    problem p;
    attn_plan plan;
    char text[256], need[32], have[32];
    static char some; /* a query looks at whether pointers are given, not where they point */
    memset(&p, 0, sizeof p);
    memset(&plan, 0, sizeof plan);
    describe(c, &p.d);
    promise none;
    p.cert = (float *)(void *)&p;
    take_mode(&p, c, backend, &none);
    p.d.lse = c->v[PASS] == FWD ? NULL : (float *)(void *)&p;
    if (c->v[MASK]) p.d.mask.data = &some;
    p.g.dout.dtype = p.g.dq.dtype = p.d.q.dtype;
    p.g.dk.dtype = p.g.dv.dtype = p.d.k.dtype;
    double scores = score_bytes(c), bytes = held_bytes(c);
    attn_status s = c->v[PAGE] || c->v[APPEND] || !attn__is_float((int32_t)c->v[KV_DTYPE])
                        ? ATTN_OK
                        : plan_call(&p, c->v[PASS], &plan);
    bool matrix = !strcmp(backend, "standard");
    if (s && (s != ATTN_ERR_TOO_LARGE || !matrix)) {
        explain(&plan, backend, s, text);
        remark(r, refusal_of(s), "%s", text);
        return false;
    }
    if (c->v[KV_DTYPE] == ATTN_INT16) /* the verification's copy as f32 */
        bytes += 4.0 * (double)(c->v[BATCH] * c->v[KV] * c->v[KV_HEADS]) *
                 (double)(c->v[DIM] + c->v[V_DIM]);
    if (c->v[PAGE] && c->v[KV]) { /* the last page of each sequence is not full */
        bench_case cache = *c;
        cache.v[SEQ] = cache.v[MASK] = 0;
        const double pages = ceil((double)c->v[KV] / (double)c->v[PAGE]);
        bytes += tensor_bytes(&cache) * (pages * (double)c->v[PAGE] / (double)c->v[KV] - 1);
    }
    bytes += matrix ? scores : (double)plan.workspace_size;
    if (p.by_rank) bytes += (double)basis_bytes(&p.d);
    r->theoretical_bytes = matrix ? (int64_t)scores : 8 * c->v[BATCH] * c->v[HEADS] * c->v[SEQ];
    const double available = available_memory() + (made ? held_bytes(c) : 0);
    if (s || bytes > 0.9 * available) {
        remark(r, "refused", "%s of %s do not fit: %s of memory are available",
            human_bytes(matrix ? scores : bytes, need), matrix ? "scores" : "tensors and workspace",
            human_bytes(available, have));
        return false;
    }
    return true;
}

/* The plan of the real call. */
static bool plan_problem(job *j) {
    attn_plan plan;
    char text[256];
    memset(&plan, 0, sizeof plan);
    attn_status s = plan_call(j->p, j->pass, &plan);
    if (s) {
        explain(&plan, j->r->backend, s, text);
        remark(j->r, refusal_of(s), "%s", text);
        return false;
    }
    const bool basis = j->p->by_rank && j->pass != BWD;
    snprintf(j->r->kernel, sizeof j->r->kernel, "%s%s", basis ? "basis + " : "",
        plan.kernel ? plan.kernel : "");
    for (char *k = j->r->kernel; *k; k++) /* a plugin's may be anything */
        if (*k < ' ' || *k > '~') *k = '?';
    snprintf(j->r->isa, sizeof j->r->isa, "%s", plan.isa ? plan.isa : "");
    j->r->workspace_bytes = (int64_t)plan.workspace_size + (basis ? basis_bytes(&j->p->d) : 0);
    j->wakes = plan.threads > 1;
    if (strcmp(j->r->backend, "auto")) return true;
    for (int i = 0; i < j->b->backend_count; i++) /* which has a row of its own */
        if (!strcmp(j->b->backends[i], plan.backend)) return true;
    snprintf(j->r->backend, sizeof j->r->backend, "%s", plan.backend);
    return true;
}

/* The share of the keys that a row sees, by a few rows from the first to the last. */
static double visible_share(const bench_case *c) {
    enum { ROWS = 9 };
    const int64_t *v = c->v;
    attn_desc d;
    double seen = 0;
    if (!v[SEQ] || !v[KV]) return 1;
    describe(c, &d);
    for (int64_t n = 0; n < ROWS; n++) {
        int64_t first, last;
        visible(&d, (v[SEQ] - 1) * n / (ROWS - 1) + v[KV] - v[SEQ], &first, &last);
        seen += last >= first ? (double)(last - first + 1) / (double)v[KV] / ROWS : 0;
    }
    return seen;
}

/* Seconds that a row will take, by the rates learned so far. */
static double estimate(bench *b, const bench_case *c, const char *backend) {
    static const double work[] = {1, 2.5, 3.5};
    const int64_t *v = c->v;
    double pairs = visible_share(c) * (double)v[BATCH] * (double)v[HEADS] * (double)v[SEQ] *
                   (double)v[KV],
           flops = work[v[PASS]] * 2 * pairs * (double)(v[DIM] + v[V_DIM]);
    double module = v[MEASURE] == MODULE
                        ? (double)(v[PASS] + 1) * 2 * (double)(v[BATCH] * v[SEQ]) * weights_of(c)
                        : 0;
    double each = operations(flops, pairs) / *rate_of(b, backend) +
                  module / (1e9 * fmax(b->fma_peak, 1)) + 1e-5,
           verify = reference_seconds(flops, (double)v[BATCH], v[HEADS], v[SEQ], v[KV]);
    double most = b->selection == WHOLE ? CHECK_SECONDS : QUICK_CHECK_SECONDS;
    double prefill = v[MEASURE] == GENERATE ? each * (double)v[KV] / 2 : 0;
    if (v[MEASURE] == MEMORY) return each + 0.1;
    if (!strcmp(backend, "reference") && each > REFERENCE_CALL_SECONDS) return 0;
    return (verify < most ? verify : most) + prefill +
           each * (double)(calls_of(b, c, backend, each) * 5 / 4 + v[WARMUP] + 1) + 0.1;
}

static const char *backend_at(const bench *b, const suite *s, bool policy, int i, char name[32]) {
    for (int k = 0; k < b->backend_count; k++)
        if ((policy || !is_mode(b->backends[k])) && !i--) return b->backends[k];
    if (b->backend_count) return NULL;
    for (const char *rest = policy ? s->modes : s->backends; rest; i--) {
        rest = take_item(rest, name, 32);
        if (!i) return name;
    }
    if (!*b->no_gpu && i-- == 0) return "hip"; /* CPU against GPU, where there is one */
    return i < b->plugin_count ? b->plugins[i] : NULL;
}

static const char *backend_of_case(const bench *b, const bench_case *c, int i, char name[32]) {
    return backend_at(b, c->suite, c->v[POLICY] != EXACT, i, name);
}

static double remaining(bench *b, int64_t from_case, int from_backend) {
    double seconds = 0;
    char name[32];
    const char *backend;
    for (int64_t i = from_case; i < b->case_count; i++, from_backend = 0)
        for (int k = from_backend; (backend = backend_of_case(b, &b->cases[i], k, name)); k++)
            seconds += estimate(b, &b->cases[i], backend);
    return seconds;
}

static void progress(bench *b, int64_t at, int k, const char *backend) {
    static int terminal = -1;
    char bar[21] = "....................";
    if (terminal < 0) terminal = isatty(STDERR_FILENO);
    if (!terminal) return;
    for (int64_t i = 0; i < 20 && b->row_total && i * b->row_total < b->row_count * 20; i++)
        bar[i] = '#';
    fprintf(stderr, "\r[%s] %lld/%lld  %s %s %s  about %.0f s left\033[K", bar,
        (long long)b->row_count, (long long)b->row_total, b->cases[at].suite->name,
        b->cases[at].name, backend, remaining(b, at, k));
    fflush(stderr);
}

static void clear_progress(void) {
    if (isatty(STDERR_FILENO)) fputs("\r\033[K", stderr);
}

/* A long row is announced before it starts; a quick selection leaves it out and says so. */
static bool announce(bench *b, const bench_case *c, row *r) {
    double seconds = estimate(b, c, r->backend);
    if (b->selection != WHOLE && !b->opt.user.count[SEQ] && seconds > QUICK_SKIP_SECONDS) {
        remark(r, "skipped", "would take about %.0f s: left out of a quick selection", seconds);
        return false;
    }
    if (seconds > ANNOUNCE_SECONDS) {
        clear_progress();
        fprintf(stderr,
            "attn_bench: %s %s %s will take about %.0f s; Ctrl-C ends here with the rows so far, twice within a call%s\n",
            r->suite, r->name, r->backend, seconds,
            b->selection == WHOLE && !b->opt.user.count[SEQ] ? ", --quick leaves it out" : "");
    }
    return true;
}

static void derive_row(const bench *b, row *r);

/* A row is written when it is done, into a pipe too: what comes after it cannot lose it. */
static void add_row(bench *b, const row *finished) {
    b->rows = grow(b->rows, b->row_count, sizeof *b->rows);
    row *r = &b->rows[b->row_count++];
    keep_point();
    *r = *finished;
    derive_row(b, r);
    clear_progress();
    if (!row_ok(r) && strcmp(r->status, "skipped") && strcmp(r->status, "model"))
        fprintf(stderr, "attn_bench: %s %s %s: %s: %s\n", r->suite, r->name, r->backend, r->status,
            r->note);
    if (!b->writer) return;
    b->writer->row(document, b, r);
    if (fflush(document) && !b->broken) b->broken = errno;
}

/* The output as the files are shaped. */
static npy output_file(const bench *b, const problem *p) {
    npy o = b->files->q;
    const int64_t *v = b->cases[0].v;
    o.shape[o.dims - 1] = b->joined ? v[HEADS] * v[V_DIM] : v[V_DIM];
    o.count = v[BATCH] * v[SEQ] * v[HEADS] * v[V_DIM];
    o.data = p->d.o.data;
    return o;
}

/* --expect and --output, after the case has run: the largest difference, and the file. */
static int finish_files(bench *b, const problem *p, row *r) {
    npy o = output_file(b, p);
    double worst = 0, largest = 0;
    if (b->files->has_expect) {
        const npy *e = &b->files->expect;
        verdict v = {.status = ATTN_OK};
        double *x = malloc((size_t)o.count * 8 + 8), *y = malloc((size_t)o.count * 8 + 8);
        attn_out got = {.data = o.data, .dtype = o.dtype},
                 expected = {.data = e->data, .dtype = e->dtype};
        const bool compared = x && y;
        if (compared) {
            widen(x, &got, 0, 0, 0, 1, o.count);
            widen(y, &expected, 0, 0, 0, 1, o.count);
            for (int64_t i = 0; i < o.count; i++)
                compare(&v, isinf(y[i]) && x[i] != y[i] ? 0 : x[i], y[i], /* that infinity alone */
                    2e-6 + 4 * unit_of(o.dtype) * (1 + fabs(y[i])) * (o.dtype != ATTN_F32) +
                        2 * 0x1p-24 * fabs(y[i]));
        }
        free(x), free(y);
        worst = v.worst, largest = v.max_error;
        if (!compared) remark(r, "failed", "no memory to compare with --expect");
        else if (!(worst <= 1)) remark(r, "wrong", "differs from --expect by up to %.3g", largest);
        else remark(r, NULL, "equals --expect within %.3g", largest);
    }
    return b->opt.output && row_ok(r) ? write_npy(b->opt.output, &o) : 0;
}

static void free_rows(row *rows, int64_t count) {
    for (int64_t i = 0; i < count; i++) free(rows[i].samples_ms.x);
    free(rows);
}

static bool may_go_on(const bench *b) { return !interrupted && !b->broken; }

/* A backend's part in a case: its row, and what the shared description holds in its turns. */
typedef struct part {
    row r;
    job j;
    attn_desc d;
    promise promise;
    bool by_rank;
    bool made; /* it has a problem to compute */
} part;

static bool mode_declines(const bench_case *c, const char *backend, row *r) {
    attn_desc d;
    describe(c, &d);
    static char some;
    if (c->v[MASK] || c->v[PAGE] || c->v[APPEND]) d.mask.data = &some;
    const char *why = strcmp(backend, "rank") ? NULL : basis_declines(&d);
    if (why) remark(r, "declined", "%s", why);
    return why != NULL;
}

/* Everything but what is timed in turns. */
static void start_part(
    bench *b, const bench_case *c, const char *backend, problem *p, bool *made, part *x) {
    memset(x, 0, sizeof *x);
    x->r = new_row(c, backend);
    row *r = &x->r;
    running = r;
    x->j = (job){.b = b, .c = c, .p = p, .r = r, .pass = c->v[PASS]};
    x->j.reference = !strcmp(backend, "reference"), x->j.gpu = is_gpu(r);
    if (c->variant) attn__tuning = c->variant->tuning;
    if (is_gpu(r) && *b->no_gpu) remark(r, "declined", "%s", b->no_gpu);
    else if (is_gpu(r) && c->v[COLD])
        remark(r, "declined", "--cold flushes the CPU's caches, not the GPU's");
    else if (!mode_declines(c, backend, r) && plan_row(c, backend, *made, r) && announce(b, c, r)) {
        if (!*made && c->v[MEASURE] != MEMORY) {
            *made = problem_make(c, b->files, p);
            if (!*made) remark(r, "refused", "out of memory");
        }
        x->made = *made;
        if (c->v[MEASURE] == MEMORY) measure_memory(&x->j);
    }
    if (!x->made) return;
    take_mode(p, c, r->backend, &x->promise);
    if (plan_problem(&x->j)) (c->v[MEASURE] == TIME ? start_time : measures[c->v[MEASURE]])(&x->j);
    p->d.threads = (int32_t)c->v[THREADS];
    x->d = p->d;
    x->by_rank = p->by_rank;
}

static void leave_problem(problem *p) {
    p->d = without_tolerance(&p->d);
    p->promise = NULL;
    p->by_rank = false;
    p->d.lse = p->lse;
    p->d.workspace = NULL; /* the problem's memory still, given again */
    p->d.workspace_size = 0;
}

static void enter_problem(part *x) {
    problem *p = x->j.p;
    running = &x->r;
    p->d = x->d;
    p->by_rank = x->by_rank;
    p->promise = p->by_rank || p->d.tolerance > 0 ? &x->promise : NULL;
}

static void turn_of(part *x, int turn, int turns) {
    if (!x->made) return;
    enter_problem(x);
    time_turn(&x->j, turn, turns);
    if (x->j.call && !is_trusted(&x->j)) inspect_problem(&x->j); /* before another's turn */
    leave_problem(x->j.p);
}

/* Whether nothing of the row was to be computed. */
static bool was_left_out(const row *r) {
    return !strcmp(r->status, "refused") || !strcmp(r->status, "declined") ||
           !strcmp(r->status, "skipped");
}

static void finish_part(bench *b, part *x) {
    if (x->made) {
        problem *p = x->j.p;
        enter_problem(x);
        if (x->j.c->v[MEASURE] == TIME) {
            finish_timing(&x->j);
            find_published(&x->r);
        }
        p->d.lse = p->lse;
        take_workspace(p);
        if (x->j.c->v[MEASURE] != MODULE) x->r.bytes = p->bytes;
        if (!interrupted && b->files) b->file_code = finish_files(b, p, &x->r);
    }
    memset(&attn__tuning, 0, sizeof attn__tuning);
    running = NULL;
    if (interrupted && !was_left_out(&x->r)) /* a row cut short by Ctrl-C is not a row */
        free(x->r.samples_ms.x);
    else add_row(b, &x->r);
}

static void run_row(bench *b, const bench_case *c, const char *backend, problem *p, bool *made) {
    part x;
    start_part(b, c, backend, p, made, &x);
    turn_of(&x, 0, 1);
    finish_part(b, &x);
}

/* All backends of a case, whose timed calls alternate. Files and variants of attn.h itself go one
 * after the other, as do all other measures: a row is then written as soon as it is done. */
static void run_parts(bench *b, int64_t at, problem *p, bool *made) {
    static part parts[MOST_PARTS];
    const bench_case *c = &b->cases[at];
    char name[32];
    const char *backend;
    int count = 0;
    bool alternate = c->v[MEASURE] == TIME && !b->files && !c->variant;
    for (int k = 0; may_go_on(b) && (backend = backend_of_case(b, c, k, name)); k++) {
        progress(b, at, k, backend);
        if (!alternate || count == MOST_PARTS) {
            run_row(b, c, backend, p, made);
            continue;
        }
        start_part(b, c, backend, p, made, &parts[count]);
        if (parts[count].made) leave_problem(p);
        count++;
    }
    for (int turn = 0; turn < TURNS; turn++)
        for (int k = 0; k < count && may_go_on(b); k++) turn_of(&parts[k], turn, TURNS);
    for (int k = 0; k < count; k++) finish_part(b, &parts[k]);
}

static void run_case(bench *b, int64_t at) {
    problem p;
    bool made = false;
    run_parts(b, at, &p, &made);
    if (made) problem_free(&p);
}

/* ================================================================================= >>ranks ====
   Attention over the ranks of MPI_COMM_WORLD. Every rank runs this program, with the same flags and
   so the same cases; rank 0 writes. A row is a case and a method; beside the time of its calls stand
   that of its work alone, that of its messages alone, and what a model makes of both. */
#ifdef ATTN_MPI
typedef struct method {
    const char *name, *method;
    int32_t split;
} method;
enum { RING, ZIGZAG, ULYSSES, DECODE };
static const method methods[] = {
    {"ring", "ring", ATTN_MPI_RANGES},
    {"zigzag", "ring", ATTN_MPI_ZIGZAG},
    {"ulysses", "ulysses", ATTN_MPI_RANGES},
    {"decode", "ring", ATTN_MPI_RANGES},
};
/* What the model takes as given: operations of a rank, bytes of a link, the delay of a message. */
typedef struct assumption {
    const char *name;
    double flops_per_s, bytes_per_s, latency;
} assumption;
static const assumption assumed[] = {
    {"CPU node", 2e12, 25e9, 2e-6}, /* 64 cores of 32 GFLOP/s; a link of 200 Gbit/s */
    {"GPU", 400e12, 50e9, 10e-6},   /* 16-bit matrix units; a link of 400 Gbit/s for each */
};
static const int modelled_ranks[] = {8, 64, 1024};
static struct {
    int rank, count;
    assumption link; /* as measured here, with flops_per_s unknown */
} world = {0, 1, {"measured", 0, 0, 0}};

/* A case as `count` ranks share it by a method. */
typedef struct spread {
    const bench_case *c;
    const method *m;
    int count;
    int64_t *q_cut, *k_cut; /* owned */
    int *hops;              /* owned: how far the keys of each rank go round the ring */
} spread;

static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }
static int which_method(const spread *s) { return (int)(s->m - methods); }
static int queries_of(const spread *s, int rank, attn__chunk c[2]) {
    return attn__mpi_chunks(s->q_cut, s->m->split, s->count, rank, c);
}
static int keys_of(const spread *s, int rank, attn__chunk c[2]) {
    return attn__mpi_chunks(s->k_cut, s->m->split, s->count, rank, c);
}
static int64_t tokens_held(const spread *s, const int64_t *cut, int rank) {
    return attn_mpi_tokens(cut, s->m->split, s->count, rank);
}

/* Sum of min(n, most) for n from 1 to x. */
static double staircase(double x, double most) {
    return x <= 0 ? 0 : x <= most ? x * (x + 1) / 2 : most * (most + 1) / 2 + (x - most) * most;
}
/* Pairs that see each other, of queries and keys. */
static double block_pairs(const bench_case *c, const attn__chunk *q, const attn__chunk *k) {
    const double rows = (double)(q->last - q->first), keys = (double)(k->last - k->first),
                 ahead = (double)(c->v[KV] - c->v[SEQ] + q->first - k->first);
    return c->v[CAUSAL] ? staircase(ahead + rows, keys) - staircase(ahead, keys) : rows * keys;
}
static double pairs_of(const spread *s, int rank, int source) {
    attn__chunk q[2], k[2];
    const int qs = queries_of(s, rank, q), ks = keys_of(s, source, k);
    double pairs = 0;
    for (int n = 0; n < qs * ks; n++) pairs += block_pairs(s->c, &q[n / ks], &k[n % ks]);
    return pairs;
}
static double flops_per_pair(const bench_case *c) {
    return (c->v[PASS] == FWD ? 2 : 5) * (double)(c->v[BATCH] * c->v[HEADS]) *
           (double)(c->v[DIM] + c->v[V_DIM]);
}
/* What a rank computes. */
static double flops_of(const spread *s, int rank) {
    double pairs = 0;
    for (int source = 0; source < s->count && which_method(s) < ULYSSES; source++)
        pairs += pairs_of(s, rank, source);
    if (which_method(s) == ULYSSES) {
        const attn__chunk q = {0, s->c->v[SEQ], 0}, k = {0, s->c->v[KV], 0};
        pairs = block_pairs(s->c, &q, &k) / s->count;
    }
    if (which_method(s) == DECODE)
        pairs = (double)s->c->v[SEQ] * (double)tokens_held(s, s->k_cut, rank);
    return pairs * flops_per_pair(s->c);
}

static void spread_free(spread *s) { free(s->q_cut), free(s->k_cut), free(s->hops); }
static bool spread_make(spread *s, const bench_case *c, const method *m, int count) {
    const size_t cuts = 2 * (size_t)count + 1;
    *s = (spread){
        c, m, count, malloc(cuts * 8), malloc(cuts * 8), malloc((size_t)count * sizeof(int))};
    if (!s->q_cut || !s->k_cut || !s->hops) return false;
    attn_mpi_cut(c->v[SEQ], m->split, count, s->q_cut);
    attn_mpi_cut(c->v[KV], m->split, count, s->k_cut);
    for (int r = 0; r < count && m < &methods[ULYSSES]; r++) {
        int most = count - 1;
        while (most > 0 && !(pairs_of(s, (r + most) % count, r) > 0)) most--;
        s->hops[r] = most;
    }
    return true;
}

/* ---- messages: bytes, as attn.h sends them */
static int64_t key_bytes(const spread *s, int rank) {
    const int64_t *v = s->c->v, rows = v[BATCH] * tokens_held(s, s->k_cut, rank) * v[KV_HEADS];
    return attn__round_up(attn__bytes((int32_t)v[KV_DTYPE], rows * v[DIM]), ATTN__ALIGN) +
           attn__round_up(attn__bytes((int32_t)v[KV_DTYPE], rows * v[V_DIM]), ATTN__ALIGN);
}
static int64_t grad_bytes(const spread *s, int rank) {
    const int64_t *v = s->c->v;
    return v[BATCH] * tokens_held(s, s->k_cut, rank) * v[KV_HEADS] * (v[DIM] + v[V_DIM]) * 4;
}
/* What a rank sends and gets in one step of the ring: keys, and in a backward gradients, which go
 * home where nobody behind needs the keys. */
typedef struct ring_step {
    int source, home; /* home: who gets the gradients instead of the next rank; -1 */
    int64_t keys_out, keys_in, grads_out, grads_in;
} ring_step;
static ring_step step_of(const spread *s, int rank, int step) {
    const int n = s->count, source = (rank - step + n) % n, after = (rank - step - 1 + 2 * n) % n;
    ring_step x = {source, -1, 0, 0, 0, 0};
    if (step < s->hops[source]) x.keys_out = key_bytes(s, source);
    if (step + 1 < n && step + 1 <= s->hops[after]) x.keys_in = key_bytes(s, after);
    if (s->c->v[PASS] == FWD || step > s->hops[source]) return x;
    if (step > 0) x.grads_in = grad_bytes(s, source);
    if (s->hops[source] > 0) x.grads_out = grad_bytes(s, source);
    if (step == s->hops[source]) x.home = source;
    return x;
}
/* A tensor that Ulysses moves: bytes of a token of heads / ranks heads. */
typedef struct moved {
    bool keys, out;
    int64_t token;
} moved;
static int moved_tensors(const spread *s, moved m[9]) {
    const int64_t *v = s->c->v, each = v[BATCH] * v[HEADS] / s->count,
                  kv_each = v[BATCH] * v[KV_HEADS] / s->count;
    const int64_t size = attn__bytes((int32_t)v[DTYPE], 1);
    int n = 0;
    m[n++] = (moved){false, false, each * v[DIM] * size};
    m[n++] = (moved){true, false, attn__bytes((int32_t)v[KV_DTYPE], kv_each * v[DIM])};
    m[n++] = (moved){true, false, attn__bytes((int32_t)v[KV_DTYPE], kv_each * v[V_DIM])};
    if (v[PASS] == FWD) {
        m[n++] = (moved){false, true, each * v[V_DIM] * size};
        return n;
    }
    m[n++] = (moved){false, false, each * v[V_DIM] * size}; /* o, dout, lse */
    m[n++] = (moved){false, false, each * v[V_DIM] * size};
    m[n++] = (moved){false, false, each * 4};
    m[n++] = (moved){false, true, each * v[DIM] * 4}; /* dq, dk, dv in f32 */
    m[n++] = (moved){true, true, kv_each * v[DIM] * 4};
    m[n++] = (moved){true, true, kv_each * v[V_DIM] * 4};
    return n;
}
/* Bytes of the message from one rank to another: tokens of the one that holds them. */
static int64_t moved_bytes(const spread *s, const moved *m, int from, int to) {
    return tokens_held(s, m->keys ? s->k_cut : s->q_cut, m->out ? to : from) * m->token;
}
static int64_t query_bytes(const spread *s) {
    const int64_t *v = s->c->v;
    return attn__bytes((int32_t)v[DTYPE], v[BATCH] * v[SEQ] * v[HEADS] * v[DIM]);
}
/* Decode: f64 numbers of the rows that one rank joins. */
static int64_t share_doubles(const spread *s) {
    const int64_t *v = s->c->v;
    return attn__ceil_div(v[BATCH] * v[SEQ] * v[HEADS], s->count) * (v[V_DIM] + 2);
}

/* ---- the model */
typedef struct forecast {
    double seconds, work, comm, mean_work, sent;
} forecast;
/* Each step takes as long as the longer of its work and its messages, which go both ways at once. */
static void forecast_ring(const spread *s, const assumption *a, forecast *f) {
    for (int r = 0; r < s->count; r++) {
        double seconds = 0, work = 0, comm = 0;
        for (int step = 0; step < s->count; step++) {
            const ring_step x = step_of(s, r, step);
            const double out = (double)(x.keys_out + x.grads_out),
                         in = (double)(x.keys_in + x.grads_in),
                         message = out + in > 0 ? a->latency + fmax(in, out) / a->bytes_per_s : 0,
                         compute =
                             step > s->hops[x.source]
                                 ? 0
                                 : pairs_of(s, r, x.source) * flops_per_pair(s->c) / a->flops_per_s;
            seconds += fmax(compute, message);
            work += compute, comm += message, f->sent += out;
        }
        f->seconds = fmax(f->seconds, seconds), f->work = fmax(f->work, work);
        f->comm = fmax(f->comm, comm), f->mean_work += work / s->count;
    }
}
/* Nothing is hidden: every tensor is moved before the work or after it. */
static void forecast_ulysses(const spread *s, const assumption *a, forecast *f) {
    moved m[9];
    const int tensors = moved_tensors(s, m);
    for (int r = 0; r < s->count; r++) {
        double comm = 0, sent = 0;
        for (int t = 0; t < tensors; t++) {
            for (int to = 0; to < s->count; to++)
                if (to != r) sent += (double)moved_bytes(s, &m[t], r, to);
            comm += (s->count - 1) * a->latency;
        }
        f->sent += sent;
        f->comm = fmax(f->comm, comm + sent / a->bytes_per_s);
    }
    f->work = f->mean_work = flops_of(s, 0) / a->flops_per_s;
    f->seconds = f->work + f->comm;
}
/* q goes to all along a tree; then all rows to those who join them, and what is joined to all. */
static void forecast_decode(const spread *s, const assumption *a, forecast *f) {
    const double others = s->count - 1, share = 8 * (double)share_doubles(s),
                 query = (double)query_bytes(s);
    for (int r = 0; r < s->count; r++) {
        const double work = flops_of(s, r) / a->flops_per_s;
        f->work = fmax(f->work, work), f->mean_work += work / s->count;
    }
    f->comm = ceil(log2(s->count)) * (a->latency + query / a->bytes_per_s) +
              2 * others * (a->latency + share / a->bytes_per_s);
    f->sent = others * query + 2 * others * s->count * share;
    f->seconds = f->work + f->comm;
}
static forecast forecast_of(const spread *s, const assumption *a) {
    forecast f = {0, 0, 0, 0, 0};
    if (which_method(s) < ULYSSES) forecast_ring(s, a, &f);
    else if (which_method(s) == ULYSSES) forecast_ulysses(s, a, &f);
    else forecast_decode(s, a, &f);
    return f;
}
/* The share of the messages' time that the call does not take longer than its work. */
static double hidden_share(double call, double work, double comm) {
    return comm > 0 ? fmin(1, fmax(0, 1 - (call - work) / comm)) : NAN;
}

/* ---- a rank's part of a case */
/* Memory that one call leaves is there for the next, as in a program that makes many. */
enum { MOST_KEPT = 64 };
typedef struct kept_memory {
    void *p[MOST_KEPT];
    size_t size[MOST_KEPT];
    bool used[MOST_KEPT];
    int count;
} kept_memory;
static void *keep_get(void *user, size_t size, size_t align) {
    kept_memory *k = user;
    for (int i = 0; i < k->count; i++)
        if (!k->used[i] && k->size[i] == size) {
            k->used[i] = true;
            return k->p[i];
        }
    void *p = k->count < MOST_KEPT ? aligned_get(size, align) : NULL;
    if (p) k->p[k->count] = p, k->size[k->count] = size, k->used[k->count++] = true;
    return p;
}
static void keep_put(void *user, void *p, size_t size) {
    kept_memory *k = user;
    (void)size;
    for (int i = 0; i < k->count; i++)
        if (k->p[i] == p) k->used[i] = false;
}
static void keep_nothing(kept_memory *k) {
    while (k->count) aligned_put(k->p[--k->count]);
}
typedef struct rank_call {
    spread s;
    problem p; /* the whole case, the same on every rank */
    attn_desc d;
    attn_grad g;
    attn_mpi m;
    attn_mpi_times times;
    float *chunk_lse[2]; /* of a rank's chunks, dense */
    char *in, *out;      /* room for messages, `slot` bytes for each */
    int64_t slot;
    void *work; /* workspace, owned */
    size_t work_size;
    kept_memory kept;
    attn_alloc alloc;
    attn_status status;
} rank_call;

/* Rows of a rank's chunks between its own dense tensor and that of all tokens. */
static void move_rows(const attn__chunk *c, int chunks, char *own, char *all,
    const int64_t shape[3], bool in) { /* batches, tokens, bytes of a row */
    const attn__chunk *last = &c[chunks - 1];
    const int64_t held = last->at + last->last - last->first;
    for (int64_t n = 0; n < shape[0] * chunks; n++) {
        const attn__chunk *x = &c[n % chunks];
        char *mine = own + (n / chunks * held + x->at) * shape[2],
             *whole = all + (n / chunks * shape[1] + x->first) * shape[2];
        memcpy(in ? mine : whole, in ? whole : mine, (size_t)((x->last - x->first) * shape[2]));
    }
}
/* The rank's own rows of a tensor; `filled`: with what the whole has. */
static void *own_rows(
    rank_call *x, void *all, bool keys, int64_t batches, int64_t row, bool filled) {
    attn__chunk c[2];
    const int n = keys ? keys_of(&x->s, world.rank, c) : queries_of(&x->s, world.rank, c);
    const int64_t held = tokens_held(&x->s, keys ? x->s.k_cut : x->s.q_cut, world.rank),
                  shape[3] = {batches, x->s.c->v[keys ? KV : SEQ], row};
    char *own_data = own(&x->p, batches * held * row);
    if (own_data && filled) move_rows(c, n, own_data, all, shape, true);
    return own_data;
}
/* Rank 0 gets every rank's rows into the whole tensor. */
static void collect_rows(
    rank_call *x, char *own_data, char *all, bool keys, int64_t batches, int64_t row) {
    const int64_t *cut = keys ? x->s.k_cut : x->s.q_cut,
                  shape[3] = {batches, x->s.c->v[keys ? KV : SEQ], row};
    for (int r = 0; r < world.count; r++) {
        attn__chunk c[2];
        const int n = keys ? keys_of(&x->s, r, c) : queries_of(&x->s, r, c);
        const int64_t bytes = batches * tokens_held(&x->s, cut, r) * row;
        char *part = r && !world.rank ? malloc((size_t)bytes + 1) : own_data;
        for (int64_t at = 0; at < bytes && r && (!world.rank || world.rank == r); at += 1 << 30) {
            const int size = (int)min64(bytes - at, 1 << 30);
            if (world.rank) MPI_Send(part + at, size, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
            else MPI_Recv(part + at, size, MPI_BYTE, r, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        if (!world.rank) move_rows(c, n, part, all, shape, false);
        if (part != own_data) free(part);
    }
}
static int64_t row_bytes(const attn_in *t, int64_t heads, int64_t dim) {
    return attn__bytes(t->dtype, heads * dim);
}
/* Descriptions over the rank's own rows. In decode q and o are whole. */
static void describe_rank(rank_call *x) {
    const int64_t *v = x->s.c->v, q_row = row_bytes(&x->p.d.q, v[HEADS], v[DIM]),
                  o_row = row_bytes(&x->p.d.q, v[HEADS], v[V_DIM]);
    const bool back = v[PASS] != FWD, decode = which_method(&x->s) == DECODE;
    attn_desc *d = &x->d, *all = &x->p.d;
    *d = *all;
    memset(d->q.stride, 0, sizeof d->q.stride), memset(d->k.stride, 0, sizeof d->k.stride);
    memset(d->v.stride, 0, sizeof d->v.stride), memset(d->o.stride, 0, sizeof d->o.stride);
    x->alloc = (attn_alloc){keep_get, keep_put, &x->kept}, d->alloc = &x->alloc;
    d->k.data = own_rows(x, (void *)(uintptr_t)all->k.data, true, v[BATCH],
        row_bytes(&all->k, v[KV_HEADS], v[DIM]), true);
    d->v.data = own_rows(x, (void *)(uintptr_t)all->v.data, true, v[BATCH],
        row_bytes(&all->v, v[KV_HEADS], v[V_DIM]), true);
    x->m =
        (attn_mpi){x->s.m->split, x->s.m->method, x->s.q_cut, x->s.k_cut, &x->times, ATTN_MPI_ASK};
    if (decode) return;
    d->q.data = own_rows(x, (void *)(uintptr_t)all->q.data, false, v[BATCH], q_row, true);
    d->o.data = own_rows(x, all->o.data, false, v[BATCH], o_row, back);
    d->lse = own_rows(x, x->p.lse, false, v[BATCH] * v[HEADS], 4, back);
    if (!back) return;
    attn_out *to[3] = {&x->g.dq, &x->g.dk, &x->g.dv},
             *from[3] = {&x->p.g.dq, &x->p.g.dk, &x->p.g.dv};
    const int64_t rows[3] = {
        q_row, row_bytes(&all->k, v[KV_HEADS], v[DIM]), row_bytes(&all->v, v[KV_HEADS], v[V_DIM])};
    x->g.dout.dtype = x->p.g.dout.dtype;
    x->g.dout.data = own_rows(x, (void *)(uintptr_t)x->p.g.dout.data, false, v[BATCH], o_row, true);
    for (int i = 0; i < 3; i++) {
        to[i]->dtype = from[i]->dtype;
        to[i]->data = own_rows(x, from[i]->data, i > 0, v[BATCH], rows[i], false);
    }
}
static void collect_result(rank_call *x) {
    const int64_t *v = x->s.c->v;
    attn_desc *all = &x->p.d;
    if (which_method(&x->s) == DECODE) return; /* complete on every rank */
    if (v[PASS] == FWD) {
        collect_rows(
            x, x->d.o.data, all->o.data, false, v[BATCH], row_bytes(&all->q, v[HEADS], v[V_DIM]));
        collect_rows(x, (char *)x->d.lse, (char *)x->p.lse, false, v[BATCH] * v[HEADS], 4);
        return;
    }
    collect_rows(
        x, x->g.dq.data, x->p.g.dq.data, false, v[BATCH], row_bytes(&all->q, v[HEADS], v[DIM]));
    collect_rows(
        x, x->g.dk.data, x->p.g.dk.data, true, v[BATCH], row_bytes(&all->k, v[KV_HEADS], v[DIM]));
    collect_rows(
        x, x->g.dv.data, x->p.g.dv.data, true, v[BATCH], row_bytes(&all->v, v[KV_HEADS], v[V_DIM]));
}

/* ---- the three that are timed: the call, its work, its messages */
static void spread_call(rank_call *x) {
    attn_status s = which_method(&x->s) == DECODE ? attn_mpi_decode(&x->d, &x->m, MPI_COMM_WORLD)
                    : x->s.c->v[PASS] == FWD
                        ? attn_mpi_forward(&x->d, &x->m, MPI_COMM_WORLD)
                        : attn_mpi_backward(&x->d, &x->g, &x->m, MPI_COMM_WORLD);
    x->status = x->status ? x->status : s;
}
/* One call of the library, in a workspace that is kept for the next. */
static void work_call(rank_call *x, attn_desc *d, const attn_grad *g) {
    attn_plan plan;
    attn_status s = attn_query(d, g, &plan);
    if (!s && plan.workspace_size > x->work_size) {
        aligned_put(x->work);
        x->work = aligned_get(plan.workspace_size, 64);
        x->work_size = x->work ? plan.workspace_size : 0;
    }
    d->workspace = x->work, d->workspace_size = x->work_size;
    if (!s) s = g ? attn_backward(d, g) : attn_forward(d);
    x->status = x->status ? x->status : s;
}
/* Queries of a chunk against keys of another, in the tensors of the whole case. */
static void work_block(rank_call *x, const attn__chunk *q, const attn__chunk *k, float *lse) {
    const int64_t *v = x->s.c->v;
    const bool back = v[PASS] != FWD;
    attn_desc d = x->p.d;
    attn_grad g = x->p.g;
    d.q_len = q->last - q->first, d.kv_len = k->last - k->first;
    d.flags |= ATTN_OFFSET | (back ? ATTN_ACCUMULATE : 0u);
    d.offset = v[KV] - v[SEQ] + q->first - k->first;
    d.lse = back ? lse : NULL;
    attn_in *in[] = {&d.q, &d.k, &d.v, &g.dout};
    attn_out *out[] = {&d.o, &g.dq, &g.dk, &g.dv};
    for (int i = 0; i < (back ? 4 : 3); i++)
        in[i]->data =
            (const char *)in[i]->data +
            attn__bytes(in[i]->dtype, (i == 1 || i == 2 ? k : q)->first * in[i]->stride[1]);
    for (int i = 0; i < (back ? 4 : 1); i++)
        out[i]->data = (char *)out[i]->data +
                       attn__bytes(out[i]->dtype, (i > 1 ? k : q)->first * out[i]->stride[1]);
    work_call(x, &d, back ? &g : NULL);
}
static void work_heads(rank_call *x) { /* Ulysses: some heads of all tokens; decode: some keys */
    const int64_t *v = x->s.c->v;
    attn__chunk q = {0, v[SEQ], 0}, k[2];
    if (which_method(&x->s) == DECODE) {
        keys_of(&x->s, world.rank, k);
        if (k->last > k->first) work_block(x, &q, k, NULL);
        return;
    }
    attn_desc d = x->p.d;
    attn_grad g = x->p.g;
    d.heads /= world.count, d.kv_heads /= world.count;
    d.lse = v[PASS] == FWD ? NULL : x->chunk_lse[0];
    work_call(x, &d, v[PASS] == FWD ? NULL : &g);
}
static void work_alone(rank_call *x) {
    attn__chunk q[2], k[2];
    if (which_method(&x->s) >= ULYSSES) {
        work_heads(x);
        return;
    }
    const int qs = queries_of(&x->s, world.rank, q);
    for (int source = 0; source < world.count; source++) {
        const int ks = keys_of(&x->s, source, k);
        for (int n = 0; n < qs * ks; n++)
            if (block_pairs(x->s.c, &q[n / ks], &k[n % ks]) > 0)
                work_block(x, &q[n / ks], &k[n % ks], x->chunk_lse[n / ks]);
    }
}
/* A message, in lines of 64 bytes: their number fits MPI's int. `slot`: where it comes in. */
enum { SEND = -1 };
static MPI_Datatype line_type(void) {
    static MPI_Datatype line = MPI_DATATYPE_NULL;
    if (line == MPI_DATATYPE_NULL) {
        MPI_Type_contiguous(64, MPI_BYTE, &line);
        MPI_Type_commit(&line);
    }
    return line;
}
static void post(rank_call *x, int64_t bytes, int with, int tag, int slot, MPI_Request *request) {
    const int lines = (int)attn__ceil_div(bytes, 64);
    *request = MPI_REQUEST_NULL;
    if (bytes == 0) return;
    if (slot == SEND) MPI_Isend(x->out, lines, line_type(), with, tag, MPI_COMM_WORLD, request);
    else MPI_Irecv(x->in + slot * x->slot, lines, line_type(), with, tag, MPI_COMM_WORLD, request);
}
static void ring_alone(rank_call *x) {
    const spread *s = &x->s;
    const int next = (world.rank + 1) % world.count,
              previous = (world.rank + world.count - 1) % world.count, back = s->hops[world.rank];
    MPI_Request home = MPI_REQUEST_NULL, request[3],
                sent[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL}; /* got in the step after this */
    if (s->c->v[PASS] != FWD && back > 0)
        post(x, grad_bytes(s, world.rank), (world.rank + back) % world.count, 4, 2, &home);
    for (int step = 0; step < world.count; step++) {
        const ring_step t = step_of(s, world.rank, step);
        post(x, t.keys_in, previous, 2, 0, &request[0]);
        post(x, t.keys_out, next, 2, SEND, &request[1]);
        post(x, t.grads_in, previous, 3, 1, &request[2]);
        MPI_Wait(&sent[step % 2], MPI_STATUS_IGNORE);
        post(x, t.grads_out, t.home < 0 ? next : t.home, t.home < 0 ? 3 : 4, SEND, &sent[step % 2]);
        MPI_Waitall(3, request, MPI_STATUSES_IGNORE);
    }
    MPI_Waitall(2, sent, MPI_STATUSES_IGNORE);
    MPI_Wait(&home, MPI_STATUS_IGNORE);
}
static void ulysses_alone(rank_call *x) {
    moved m[9];
    const int tensors = moved_tensors(&x->s, m);
    MPI_Request *request = malloc(2 * (size_t)world.count * sizeof *request);
    for (int t = 0; t < tensors && request; t++) {
        for (int r = 0; r < world.count; r++) {
            const bool other = r != world.rank;
            post(x, other ? moved_bytes(&x->s, &m[t], r, world.rank) : 0, r, 2, r, &request[2 * r]);
            post(x, other ? moved_bytes(&x->s, &m[t], world.rank, r) : 0, r, 2, SEND,
                &request[2 * r + 1]);
        }
        MPI_Waitall(2 * world.count, request, MPI_STATUSES_IGNORE);
    }
    free(request);
}
static void messages_alone(rank_call *x) {
    if (which_method(&x->s) == ULYSSES) ulysses_alone(x);
    if (which_method(&x->s) < ULYSSES) ring_alone(x);
    if (which_method(&x->s) != DECODE) return;
    const int share = (int)share_doubles(&x->s);
    MPI_Bcast(x->in, (int)query_bytes(&x->s), MPI_BYTE, 0, MPI_COMM_WORLD);
    MPI_Alltoall(x->out, share, MPI_DOUBLE, x->in, share, MPI_DOUBLE, MPI_COMM_WORLD);
    MPI_Allgather(x->out, share, MPI_DOUBLE, x->in, share, MPI_DOUBLE, MPI_COMM_WORLD);
}
/* The longest message, in whole lines. */
static int64_t longest_message(const spread *s) {
    int64_t most = max64(query_bytes(s), 8 * share_doubles(s));
    moved m[9];
    const int tensors = which_method(s) == ULYSSES ? moved_tensors(s, m) : 0;
    for (int r = 0; r < s->count; r++) {
        most = max64(most, max64(key_bytes(s, r), grad_bytes(s, r)));
        for (int t = 0; t < tensors; t++) most = max64(most, moved_bytes(s, &m[t], r, r));
    }
    return attn__round_up(most, 64);
}

/* Seconds until the last rank is done; *mean: what they take on average. */
static double until_all(void (*call)(rank_call *), rank_call *x, double *mean) {
    double seconds, sum;
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = attn_seconds();
    call(x);
    sum = seconds = attn_seconds() - start;
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    *mean = sum / world.count;
    return seconds;
}
static double median_of_list(list l) {
    qsort(l.x, (size_t)l.n, sizeof *l.x, by_size);
    return quantile(l.x, l.n, 0.5);
}
static void append_to(list *l, double x) {
    l->x = grow(l->x, l->n, sizeof *l->x);
    l->x[l->n++] = x;
}
/* Call, work and messages in turn, so that a machine that changes does so for all of them. */
static void time_ranks(bench *b, rank_call *x, row *r) {
    list call = {NULL, 0}, work = {NULL, 0}, mean = {NULL, 0}, comm = {NULL, 0};
    const int64_t *v = x->s.c->v;
    double unused, each, first = until_all(spread_call, x, &unused);
    int64_t n = calls_of(b, x->s.c, r->backend, first + 1e-7), sent;
    MPI_Bcast(&n, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
    r->first_run_ms = 1e3 * first;
    for (int64_t i = -(n < v[ITERATIONS] ? 0 : v[WARMUP]); i < n; i++) {
        const double seconds = until_all(spread_call, x, &unused),
                     alone = until_all(work_alone, x, &each),
                     messages = until_all(messages_alone, x, &unused);
        if (i < 0) continue;
        append_to(&call, seconds), append_to(&work, alone), append_to(&mean, each);
        append_to(&comm, messages);
    }
    MPI_Allreduce(&x->times.sent, &sent, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    if (x->status) failed(r, &x->p, x->status);
    summarize(r, call, &x->p, (double)(v[BATCH] * v[SEQ]));
    keep_samples(r, call);
    r->kernel_ms = NAN;
    r->work_ms = 1e3 * median_of_list(work), r->comm_ms = 1e3 * median_of_list(comm);
    r->imbalance = r->work_ms / (1e3 * median_of_list(mean));
    if (world.count > 1) r->hidden = hidden_share(r->p50_ms, r->work_ms, r->comm_ms);
    r->sent_bytes = sent;
    free(work.x), free(mean.x), free(comm.x);
}
static void note_model(const rank_call *x, row *r) {
    double most = 0, sum = 0;
    for (int rank = 0; rank < world.count; rank++) {
        const double flops = flops_of(&x->s, rank);
        sum += flops, most = fmax(most, flops);
    }
    assumption a = world.link; /* the rate of this row's own work */
    a.flops_per_s = sum / world.count / (r->work_ms / r->imbalance * 1e-3);
    r->pairs_imbalance = most / (sum / world.count);
    r->model_ms = 1e3 * forecast_of(&x->s, &a).seconds;
}

/* ---- rows */
static const char *not_over_ranks(const bench_case *c, const method *m, int count) {
    const int64_t *v = c->v;
    if (v[LEFT] >= 0 || v[RIGHT] >= 0 || v[MASK] || v[PAGE] || v[APPEND] || v[LAYOUT] || v[COLD] ||
        v[PASS] == FWD_BWD || !attn__is_float((int32_t)v[KV_DTYPE]))
        return "over ranks the suite times causal and full calls, bshd, forward or backward";
    if (m == &methods[ULYSSES] && (v[HEADS] % count || v[KV_HEADS] % count))
        return attn_status_text(ATTN_ERR_MPI_HEADS);
    return NULL;
}
static bool rank_call_make(rank_call *x, const bench_case *c, const method *m) {
    const int64_t *v = c->v;
    memset(x, 0, sizeof *x);
    bool made = spread_make(&x->s, c, m, world.count) && problem_make(c, NULL, &x->p);
    if (made) {
        x->p.d.backend = "flash";
        x->slot = longest_message(&x->s);
        x->in = own(&x->p, x->slot * max64(3, world.count));
        x->out = own(&x->p, x->slot * (m == &methods[DECODE] ? world.count : 1));
        if (v[PASS] != FWD) x->status = attn_forward(&x->p.d);
        describe_rank(x);
        attn__chunk q[2];
        const int qs = queries_of(&x->s, world.rank, q);
        for (int i = 0; i < qs && v[PASS] != FWD; i++) {
            const attn__chunk one = {q[i].first, q[i].last, 0};
            const int64_t rows = m == &methods[ULYSSES] ? v[SEQ] : one.last - one.first,
                          shape[3] = {v[BATCH] * v[HEADS], v[SEQ], 4};
            x->chunk_lse[i] = own(&x->p, shape[0] * rows * 4);
            if (x->chunk_lse[i] && m == &methods[ULYSSES])
                memcpy(x->chunk_lse[i], x->p.lse, (size_t)(shape[0] * rows * 4));
            else if (x->chunk_lse[i])
                move_rows(&one, 1, (char *)x->chunk_lse[i], (char *)x->p.lse, shape, true);
        }
        made = !x->p.failed;
    }
    int all = made;
    MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all;
}
/* Everybody waits until rank 0 has compared the result with the reference. */
static void verify_ranks(bench *b, rank_call *x, row *r) {
    double seconds = b->opt.verify           ? 1e18
                     : b->selection == WHOLE ? CHECK_SECONDS
                                             : QUICK_CHECK_SECONDS;
    MPI_Request done;
    int there = 0;
    if (!world.rank && r->c->v[PASS] == FWD) poison(&x->p);
    spread_call(x);
    collect_result(x);
    if (!world.rank) {
        verdict v =
            x->status ? (verdict){.status = x->status} : check(&x->p, r->c->v[PASS], seconds);
        if (v.status) remark(r, "failed", "%s", attn_status_text(v.status));
        else if (!(v.worst <= 1))
            remark(r, "wrong",
                "%s: %.3g times the error that is allowed; largest error of o and gradients %.3g",
                v.worst_in ? v.worst_in : "an output", v.worst, v.max_error);
        r->max_abs_err = v.max_error, r->rows_verified = v.rows;
    }
    for (MPI_Ibarrier(MPI_COMM_WORLD, &done); !there; usleep(200))
        MPI_Test(&done, &there, MPI_STATUS_IGNORE);
}
static void run_method(bench *b, const bench_case *c, const method *m) {
    static rank_call x;
    row r = new_row(c, m->name);
    const char *why = not_over_ranks(c, m, world.count);
    r.ranks = world.count;
    snprintf(r.isa, sizeof r.isa, "%s", attn_isa());
    if (why) {
        remark(&r, "declined", "%s", why);
        add_row(b, &r);
        return;
    }
    if (!rank_call_make(&x, c, m)) remark(&r, "refused", "out of memory");
    else {
        verify_ranks(b, &x, &r);
        x.d.lse = c->v[PASS] == FWD ? NULL : x.d.lse;
        x.p.d.message = x.d.message = NULL, x.p.d.message_size = x.d.message_size = 0;
        time_ranks(b, &x, &r);
        note_model(&x, &r);
    }
    aligned_put(x.work);
    keep_nothing(&x.kept);
    problem_free(&x.p);
    spread_free(&x.s);
    add_row(b, &r);
}
static void run_model(bench *b, const bench_case *c, const method *m) {
    for (int n = 0; n < COUNT(modelled_ranks) * COUNT(assumed); n++) {
        const assumption *a = &assumed[n / COUNT(modelled_ranks)];
        const int count = modelled_ranks[n % COUNT(modelled_ranks)];
        row r = new_row(c, m->name);
        spread s;
        r.ranks = count, r.threads = NO_INT;
        snprintf(r.kernel, sizeof r.kernel, "%s", a->name);
        const char *why = not_over_ranks(c, m, count);
        if (why) remark(&r, "declined", "%d ranks: %s", count, why);
        else if (spread_make(&s, c, m, count)) {
            const forecast f = forecast_of(&s, a);
            remark(&r, "model",
                "a rank computes %.3g TFLOP/s, a link moves %.3g GB/s after %.3g us",
                a->flops_per_s * 1e-12, a->bytes_per_s * 1e-9, a->latency * 1e6);
            r.model_ms = 1e3 * f.seconds, r.work_ms = 1e3 * f.work, r.comm_ms = 1e3 * f.comm;
            r.hidden = hidden_share(f.seconds, f.work, f.comm);
            r.imbalance = r.pairs_imbalance = f.work / f.mean_work;
            r.sent_bytes = (int64_t)f.sent;
            spread_free(&s);
        }
        add_row(b, &r);
    }
}
/* All ranks send to the next one at once: the delay of 64 bytes, and bytes a second of 4 MiB. */
static void measure_link(void) {
    enum { LARGE = 4 << 20, CALLS = 20 };
    char *out = calloc(LARGE, 1), *in = calloc(LARGE, 1);
    const int next = (world.rank + 1) % world.count,
              previous = (world.rank + world.count - 1) % world.count;
    double best[2] = {1e9, 1e9};
    for (int i = 0; i < 2 * CALLS && out && in; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        const double start = attn_seconds();
        MPI_Sendrecv(out, i % 2 ? LARGE : 64, MPI_BYTE, next, 1, in, i % 2 ? LARGE : 64, MPI_BYTE,
            previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        best[i % 2] = fmin(best[i % 2], attn_seconds() - start);
    }
    MPI_Allreduce(MPI_IN_PLACE, best, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    world.link.latency = best[0];
    world.link.bytes_per_s = LARGE / fmax(best[1] - best[0], 1e-9);
    free(out), free(in);
}
static void run_ranks(bench *b, const bench_case *c) {
    const bool one = c->v[SEQ] == 1 && c->v[PASS] == FWD; /* query: decode */
    if (world.link.latency == 0) measure_link();
    for (int i = 0; i < COUNT(methods); i++)
        if (one == (i == DECODE))
            (c->v[MEASURE] == MODEL ? run_model : run_method)(b, c, &methods[i]);
}
static void conclude_ranks(FILE *f, const bench *b, const suite *s) {
    (void)b, (void)s;
    fprintf(f,
        "ranks: %d; each sends to the next one %.3g GB/s, after %.3g us; a measured row's model has "
        "this and the rate of its own work, one of status \"model\" what stands in its note\n",
        world.count, world.link.bytes_per_s * 1e-9, world.link.latency * 1e6);
}
/* What every rank has to agree in: whether rank 0 can still write. */
static bool go_on(const bench *b) {
    int on = may_go_on(b);
    MPI_Bcast(&on, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return on;
}
/* Threads of a rank: ATTN_THREADS, or the processors it is bound to, or its part of all. */
static int64_t all_threads(void) {
    MPI_Comm node;
    int ranks_here = 1;
    const int64_t all = sysconf(_SC_NPROCESSORS_ONLN);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &ranks_here);
    MPI_Comm_free(&node);
    const bool asked = attn__threads_of(getenv("ATTN_THREADS")) || attn_threads() < all;
    return asked ? attn_threads() : max64(1, all / ranks_here);
}
static const char *fault_of_ranks(const options *o) {
    if (world.count == 1) return NULL;
    char name[64];
    for (const char *rest = o->suites ? o->suites : suites[0].name; rest;) {
        rest = take_item(rest, name, sizeof name);
        for (int i = 0; i < COUNT(suites); i++)
            if (!strcmp(suites[i].name, name) && !suites[i].over_ranks)
                return "more than one rank: takes --suite scaling alone";
    }
    if (o->backends || o->plugins || o->input || o->baseline || o->save_baseline)
        return "more than one rank: not with --backend, --plugin, --input or a baseline";
    return NULL;
}
static void run_any_case(bench *b, int64_t at) {
    if (b->cases[at].v[MEASURE] >= RANKS) run_ranks(b, &b->cases[at]);
    else run_case(b, at);
}
static bool one_process(void) { return world.count == 1; }
#else
static bool one_process(void) { return true; }
static bool go_on(const bench *b) { return may_go_on(b); }
static void run_any_case(bench *b, int64_t at) { run_case(b, at); }
#endif

/* ================================================================================ >>derive ==== */
static bool is_performance(const row *r) { return is_timing(r->c->v[MEASURE]); }
static bool is_memory(const row *r) { return r->c->v[MEASURE] == MEMORY; }
static bool is_correctness(const row *r) { return !is_performance(r) && !is_memory(r); }

/* Whether a series of such cases over the queries has as many keys in each. Else keys grow with
 * queries, or in steps of one token. */
static bool keys_stay(const bench_case *c) {
    return c->v[MEASURE] != GENERATE && (c->keys_given || c->v[KV] != c->v[SEQ]);
}
/* Whether two rows are of one series: everything equal but the axes given, and what only says how
 * long to measure. */
static bool same_series(const row *a, const row *b, axis varied, axis also) {
    if (varied == SEQ && also == KV) {
        if (keys_stay(a->c) != keys_stay(b->c)) return false;
        if (keys_stay(a->c)) also = SEQ;
    }
    for (int i = 0; i < AXES; i++)
        if (i != (int)varied && i != (int)also && i != WARMUP && i != ITERATIONS && i != EMBED &&
            a->c->v[i] != b->c->v[i])
            return false;
    return a->c->suite == b->c->suite && a->c->variant == b->c->variant &&
           !strcmp(a->backend, b->backend);
}

/* Whether two rows are one case, with different variants or not. */
static bool same_but_variant(const row *a, const row *b) {
    return a->c->suite == b->c->suite && !strcmp(a->backend, b->backend) &&
           !memcmp(a->c->v, b->c->v, WARMUP * sizeof *a->c->v);
}

/* The row of r's case with attn.h as it is, or NULL. */
static const row *unvaried(const bench *b, const row *r) {
    for (int64_t i = 0; i < b->row_count && r->c->variant; i++)
        if (same_but_variant(r, &b->rows[i]) && row_ok(&b->rows[i]) &&
            !strcmp(b->rows[i].c->variant->group, r->suite))
            return &b->rows[i];
    return NULL;
}

/* What tells a row from others of the same name, but for its pass; the dtype too, unless it is said. */
static void case_more(const row *r, bool dtype_said, char text[128]) {
    *text = 0;
    if (r->c->v[SEED] != axes[SEED].normal)
        snprintf(text, 128, " seed %lld", (long long)r->c->v[SEED]);
    if (r->c->v[DTYPE] != ATTN_F32 && !dtype_said)
        snprintf(text + strlen(text), 32, " %.8s", r->dtype);
    if (strcmp(r->kv_dtype, r->dtype)) snprintf(text + strlen(text), 32, " kv %.8s", r->kv_dtype);
    if (r->threads != NO_INT && r->threads != attn_threads())
        snprintf(text + strlen(text), 32, " thr %lld", (long long)r->threads);
}

/* The name of a row and what tells it from others of that name, but for its pass. */
static const char *full_name(const row *r, char text[256]) {
    snprintf(text, 128, "%.127s", r->name);
    case_more(r, false, text + strlen(text));
    return text;
}

/* One line on stderr: the fastest tiles of each case. */
static void print_fastest(const bench *b) {
    const char *before = "attn_bench: fastest: ";
    char more[128];
    for (int64_t i = 0; i < b->row_count; i++) {
        const row *r = &b->rows[i];
        bool best = row_ok(r);
        for (int64_t k = 0; k < b->row_count && best; k++)
            best = !same_but_variant(r, &b->rows[k]) || !row_ok(&b->rows[k]) ||
                   b->rows[k].p50_ms > r->p50_ms || (b->rows[k].p50_ms == r->p50_ms && k >= i);
        if (!best) continue;
        case_more(r, true, more);
        fprintf(
            stderr, "%s%s%s %s %s, %.4g ms", before, r->name, more, r->dtype, r->pass, r->p50_ms);
        if (isfinite(r->speedup_vs_default))
            fprintf(stderr, ", %.2fx the default", r->speedup_vs_default);
        before = "; ";
    }
    if (*before == ';') fputc('\n', stderr);
}

static int64_t length_of(const row *r) {
    return r->c->v[MEASURE] == GENERATE ? r->kv_len : r->q_len;
}

static double total_bytes(const row *r) { return held_bytes(r->c) + workspace_of(r); }
static double megabytes(double bytes) { return bytes / 1e6; }
static double mebibytes(double bytes) { return bytes / 0x1p20; }

/* What a call adds to its inputs: output, lse and workspace. */
static double added_bytes(const row *r) {
    double rows = (double)r->batch * (double)r->q_len * (double)r->heads;
    return workspace_of(r) + rows * (4 + (double)attn__bytes((int32_t)r->c->v[DTYPE], r->v_dim));
}

/* A power law through the rows of a series over the length: log y over log x, from a 16th of the
 * longest on, for what a call costs before it has work to do is no part of it. Through two points
 * any power goes. */
enum { FEWEST_POINTS = 3 };
typedef struct power_law {
    double exponent;
    int64_t from, to, points;
} power_law;

static power_law fit_power_law(const bench *b, const row *r, double (*y)(const row *)) {
    power_law law = {NAN, 0, 0, 0};
    double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
    for (int64_t i = 0; i < b->row_count; i++)
        if (row_ok(&b->rows[i]) && same_series(r, &b->rows[i], SEQ, KV) &&
            length_of(&b->rows[i]) > law.to)
            law.to = length_of(&b->rows[i]);
    for (int64_t i = 0; i < b->row_count; i++) {
        const row *o = &b->rows[i];
        if (!row_ok(o) || !same_series(r, o, SEQ, KV) || !(y(o) > 0) || 16 * length_of(o) < law.to)
            continue;
        double lx = log((double)length_of(o)), ly = log(y(o));
        n++, sx += lx, sy += ly, sxx += lx * lx, sxy += lx * ly;
        law.from = law.points++ && law.from < length_of(o) ? law.from : length_of(o);
    }
    double spread = n * sxx - sx * sx;
    if (law.points >= FEWEST_POINTS && spread > 1e-9) law.exponent = (n * sxy - sx * sy) / spread;
    return law;
}

static double median_of(const row *r) { return r->p50_ms; }

static const row *twin(const bench *b, const row *r, const char *backend) {
    for (int64_t i = 0; i < b->row_count; i++)
        if (b->rows[i].c == r->c && !strcmp(b->rows[i].backend, backend) && row_ok(&b->rows[i]))
            return &b->rows[i];
    return NULL;
}

/* The row with the least of what is varied: threads with fixed work, the batch alone, or threads with
 * as much batch each. Of the cases, so that the order of the rows is none of it; NULL: itself, or the
 * row is not there. */
static const row *scaling_base(const bench *b, const row *r, axis varied, axis also) {
    row at = *r;
    const bench_case *base = r->c;
    for (at.c = b->cases; at.c < b->cases + b->case_count; at.c++)
        if (same_series(r, &at, varied, also) && at.c->v[varied] < base->v[varied] &&
            (varied == also || at.c->v[also] * r->c->v[varied] == r->c->v[also] * at.c->v[varied]))
            base = at.c;
    for (int64_t i = 0; i < b->row_count && base != r->c; i++)
        if (b->rows[i].c == base && !strcmp(b->rows[i].backend, r->backend) && row_ok(&b->rows[i]))
            return &b->rows[i];
    return NULL;
}

/* Says it in the row, once; returns the share of what so many more threads could do. */
static double note_scaling(const bench *b, row *r, axis varied, axis also, const char *unit) {
    const row *base = scaling_base(b, r, varied, also);
    char text[128], share[32] = "";
    if (!base) return NAN;
    const double times = r->tokens_per_s / base->tokens_per_s,
                 ideal = (double)r->c->v[varied] / (double)base->c->v[varied];
    if (varied == THREADS)
        snprintf(share, sizeof share, ", efficiency %.0f%%", 100 * times / ideal);
    snprintf(text, sizeof text, "%.2fx the throughput of %lld %s%s", times,
        (long long)base->c->v[varied], unit, share);
    if (!strstr(r->note, text)) remark(r, NULL, "%s", text);
    return times / ideal;
}

static void derive_scaling(const bench *b, row *r) {
    if (r->c->v[MEASURE] != TIME || !r->c->suite->scales) return;
    const double fixed = note_scaling(b, r, THREADS, THREADS, "thread(s)");
    note_scaling(b, r, BATCH, BATCH, "sequence(s)");
    const double grown = note_scaling(b, r, THREADS, BATCH, "thread(s) with as much work each");
    r->efficiency = isnan(fixed) ? grown : fixed;
}

/* Whether no case after that of the row is of its series. */
static bool ends_series(const bench *b, const row *r) {
    row later = *r;
    for (later.c = r->c + 1; later.c < b->cases + b->case_count; later.c++)
        if (same_series(r, &later, SEQ, KV)) return false;
    return true;
}

static void derive_exponents_of(const bench *b, row *r) {
    r->time_exponent = fit_power_law(b, r, median_of).exponent;
    r->memory_exponent = fit_power_law(b, r, added_bytes).exponent;
}

/* What follows from a row and those before it. Of a series the last row alone has the exponents: the
 * others are printed before they are known. */
static void derive_row(const bench *b, row *r) {
    const row *standard = twin(b, r, "standard"), *plain = unvaried(b, r);
    if (!row_ok(r) || is_correctness(r) || r->c->v[MEASURE] >= RANKS) return;
    if (plain) r->speedup_vs_default = plain->p50_ms / r->p50_ms;
    if (standard) { /* medians: an outlier makes no winner */
        r->speedup_vs_standard = standard->p50_ms / r->p50_ms;
        r->memory_reduction = 1 - total_bytes(r) / total_bytes(standard);
        r->memory_factor = total_bytes(standard) / total_bytes(r);
    }
    if (ends_series(b, r)) derive_exponents_of(b, r);
    derive_scaling(b, r);
}

/* When all rows are there: exponents are those of the whole series, and every base is known. */
static void derive_series(bench *b) {
    for (int64_t i = 0; i < b->row_count; i++) {
        row *r = &b->rows[i];
        if (!row_ok(r) || is_correctness(r) || r->c->v[MEASURE] >= RANKS) continue;
        derive_exponents_of(b, r);
        derive_scaling(b, r);
    }
}

static bool any_wrong(const bench *b) {
    for (int64_t i = 0; i < b->row_count; i++)
        if (!strcmp(b->rows[i].status, "wrong") || !strcmp(b->rows[i].status, "failed"))
            return true;
    return false;
}

/* Whether the intervals of their medians lie apart; of few calls all of them count. */
static bool clearly_faster(const row *a, const row *b) {
    const double high = isfinite(a->p50_high_ms) ? a->p50_high_ms : a->max_ms,
                 low = isfinite(b->p50_low_ms) ? b->p50_low_ms : b->min_ms;
    return high < low;
}

/* The cases in which standard clearly beats flash: there should be none. */
static bool is_crossover(const bench *b, const row *r) {
    return !strcmp(r->backend, "flash") && isfinite(r->speedup_vs_standard) &&
           clearly_faster(twin(b, r, "standard"), r);
}

static int64_t count_crossovers(const bench *b, int64_t *compared) {
    int64_t lost = 0;
    *compared = 0;
    for (int64_t i = 0; i < b->row_count; i++) {
        const row *r = &b->rows[i];
        *compared += !strcmp(r->backend, "flash") && isfinite(r->speedup_vs_standard);
        lost += is_crossover(b, r);
    }
    return lost;
}

static int64_t count_slower_medians(const bench *b) {
    int64_t slower = 0;
    for (int64_t i = 0; i < b->row_count; i++)
        slower += !strcmp(b->rows[i].backend, "flash") && b->rows[i].speedup_vs_standard < 1;
    return slower;
}

static void print_crossover(FILE *f, const bench *b) {
    int64_t compared, lost = count_crossovers(b, &compared);
    for (int64_t i = 0; i < b->row_count && lost; i++) {
        const row *r = &b->rows[i];
        char more[128];
        case_more(r, true, more);
        if (is_crossover(b, r))
            fprintf(f, "- standard is faster than flash at %s %s%s %s %s: %.2fx\n", r->suite,
                r->name, more, r->dtype, r->pass, 1 / r->speedup_vs_standard);
    }
    if (!compared || lost) return;
    fprintf(f,
        "- crossover of flash over standard: none, flash wins or ties in all of %lld cases\n",
        (long long)compared);
    const int64_t slower = count_slower_medians(b);
    if (slower)
        fprintf(f, "  - in %lld of them its median is slower, by no more than calls differ\n",
            (long long)slower);
}

static void print_exponents(FILE *f, const bench *b) {
    for (int64_t i = 0; i < b->row_count; i++) {
        const row *r = &b->rows[i];
        bool first = !r->c->suite->no_exponents &&
                     (isfinite(r->time_exponent) || isfinite(r->memory_exponent));
        for (int64_t k = 0; k < i && first; k++)
            first = !(row_ok(&b->rows[k]) && same_series(r, &b->rows[k], SEQ, KV));
        if (!first) continue;
        power_law time = fit_power_law(b, r, median_of), memory = fit_power_law(b, r, added_bytes);
        fprintf(f, "- %s, %s, %s as far as S %lld (%s, kv %s, %s, %d thread%s", r->suite,
            r->backend, r->name, (long long)time.to, r->dtype, r->kv_dtype, r->pass,
            (int)r->threads, r->threads == 1 ? "" : "s");
        if (r->c->v[SEED] != axes[SEED].normal) fprintf(f, ", seed %lld", (long long)r->c->v[SEED]);
        fputs("):", f);
        if (isfinite(time.exponent))
            fprintf(f, " time ~ S^%.2f from S %lld on", time.exponent, (long long)time.from);
        if (isfinite(memory.exponent))
            fprintf(f, "%s memory ~ S^%.2f from S %lld on", isfinite(time.exponent) ? "," : "",
                memory.exponent, (long long)memory.from);
        fputc('\n', f);
    }
}

/* The row of r's case in another pass. */
static const row *in_pass(const bench *b, const row *r, int pass) {
    for (int64_t i = 0; i < b->row_count; i++)
        if (row_ok(&b->rows[i]) && b->rows[i].c->v[PASS] == pass &&
            same_series(r, &b->rows[i], PASS, PASS))
            return &b->rows[i];
    return NULL;
}

/* "forward, backward, total" of a mode relative to dense, AdaAttn's "backward" being our fwd+bwd:
 * how many times as fast, or as AdaAttn prints it the inverse. */
static void print_relative(
    FILE *f, const row *r, const row *both, const row *dense, const row *dense_both, bool inverse) {
    const double none = NAN, ours[] = {r->p50_ms, both ? both->p50_ms : none},
                 theirs[] = {dense->p50_ms, dense_both ? dense_both->p50_ms : none};
    const double times[] = {
        theirs[0] / ours[0], theirs[1] / ours[1], (theirs[0] + theirs[1]) / (ours[0] + ours[1])};
    for (int i = 0; i < 3; i++)
        if (isfinite(times[i]))
            fprintf(f, i ? ", %.2f" : "%.2f", inverse ? 1 / times[i] : times[i]);
        else fputs(i ? ", -" : "-", f);
}

static void format_real(double x, char *text, size_t size) {
    double a = fabs(x);
    snprintf(text, size,
        a != 0 && (a < 1e-3 || a >= 1e7) ? "%.2e"
        : a >= 1000                      ? "%.0f"
        : a >= 100                       ? "%.1f"
        : a >= 10                        ? "%.2f"
        : a == 0 || a >= 1e-2            ? "%.3f"
                                         : "%.5f",
        x);
}

static void format_power(double x, char *text, size_t size) { snprintf(text, size, "%.2e", x); }

/* A bound is one as it is printed, too: not below x. */
static void format_bound(
    void (*format)(double, char *, size_t), double x, char *text, size_t size) {
    format(x, text, size);
    const double below = strtod(text, NULL);
    for (double y = x; strtod(text, NULL) < x;) format(y += y - below, text, size);
}

/* The modes of each policy beside dense, which is flash in the same case; the largest error of a
 * forward beside its largest certificate. */
static void print_modes(FILE *f, const bench *b, const suite *s) {
    bool any = false;
    char name[256], bound[32];
    for (int64_t i = 0; i < b->row_count; i++) {
        const row *r = &b->rows[i], *dense = twin(b, r, "flash");
        if (r->c->suite != s || !is_mode(r->backend) || r->c->v[PASS] != FWD || !row_ok(r) ||
            !isfinite(r->p50_ms) || !dense)
            continue;
        const row *both = in_pass(b, r, FWD_BWD), *dense_both = in_pass(b, dense, FWD_BWD);
        if (!any)
            fputs("\n| adaattn relative to dense (flash) | mode | forward, backward, total | as "
                  "AdaAttn prints it | largest error | largest certificate |\n"
                  "|---|---|---|---|---|---|\n",
                f);
        any = true;
        fprintf(f, "| %s | %s | ", full_name(r, name), r->backend);
        print_relative(f, r, both, dense, dense_both, false);
        fputs(" | ", f);
        print_relative(f, r, both, dense, dense_both, true);
        format_bound(format_power, r->max_cert, bound, sizeof bound);
        fprintf(f, " | %.2e | %s |\n", r->max_abs_err, bound);
    }
    if (any) fputc('\n', f);
}

/* A mean, with the standard deviation where there is one. */
static void print_mean(FILE *f, const char *what, double mean, double spread) {
    fprintf(f, isfinite(spread) ? "%s %.3f+-%.3f ms" : "%s %.3f ms", what, mean, spread);
}

/* AdaAttn's own table: forward, its "backward" (which includes the forward) and their sum,
 * relative to dense. */
static void conclude_adaattn(FILE *f, const bench *b, const suite *s) {
    char name[256];
    print_modes(f, b, s);
    fputs("- adaattn: AdaAttn's \"backward\" is our fwd+bwd, its total the sum of both; ours alone "
          "is pass bwd. Relative to dense (standard), > 1 is faster or smaller here; AdaAttn "
          "prints the inverse. Times are means with standard deviations, as theirs; tok/s and what "
          "is relative are of medians.\n",
        f);
    for (int64_t i = 0; i < b->row_count; i++) {
        const row *r = &b->rows[i], *dense = twin(b, r, "standard");
        if (r->c->suite != s || r->c->v[PASS] != FWD || r->c->v[POLICY] || !row_ok(r) ||
            !isfinite(r->mean_ms))
            continue;
        const row *both = in_pass(b, r, FWD_BWD),
                  *dense_both = dense ? in_pass(b, dense, FWD_BWD) : NULL;
        fprintf(f, "  - %s %s: ", r->backend, full_name(r, name));
        print_mean(f, "forward", r->mean_ms, r->stddev_ms);
        if (both) {
            print_mean(f, ", backward", both->mean_ms, both->stddev_ms);
            print_mean(
                f, ", total", r->mean_ms + both->mean_ms, hypot(r->stddev_ms, both->stddev_ms));
        }
        fprintf(f, ", %.0f tok/s, memory %.4g MB", r->tokens_per_s, megabytes(total_bytes(r)));
        if (dense)
            fprintf(f, "; relative to dense: forward %.2f, memory %.2f", dense->p50_ms / r->p50_ms,
                total_bytes(dense) / total_bytes(r));
        if (both && dense_both)
            fprintf(f, ", backward %.2f, total %.2f", dense_both->p50_ms / both->p50_ms,
                (dense->p50_ms + dense_both->p50_ms) / (r->p50_ms + both->p50_ms));
        fputc('\n', f);
    }
    fputs("  - theirs, B2 S128 E512 H8, dense: forward 45.374+-0.874 ms, backward 51.294+-0.622 "
          "ms, total 96.668 ms, 5642 tok/s; relative to dense, > 1 is slower there: adaptive "
          "precision 1.49, 1.76, 1.64, adaptive rank 1.01, 1.02, 1.01\n",
        f);
}

/* The first row that a published figure stands beside, or NULL. */
static const row *beside(const bench *b, const struct published *p) {
    for (int64_t i = 0; i < b->row_count; i++)
        if (row_ok(&b->rows[i]) && is_performance(&b->rows[i]) && is_published(p, &b->rows[i]) &&
            (p->backend || !strcmp(b->rows[i].backend, "flash")))
            return &b->rows[i];
    return NULL;
}

static const char *human_ms(double ms, char text[32]) {
    bool known = isfinite(ms), brief = known && ms < 0.1;
    snprintf(text, 32, known ? brief ? "%.6g us" : "%.6g ms" : "-", brief ? 1e3 * ms : ms);
    return text;
}

/* Every time that the system of a suite published, measured here or not, as it was published; under
 * a heading of their own those that others did. */
static void print_published(FILE *f, const bench *b, const suite *s) {
    static const char *const passes[] = {"fwd", "bwd", "fwd+bwd"};
    char ours[32], tokens[32], factor[32];
    const char *heading = NULL;
    for (int i = 0; i < COUNT(published); i++) {
        const struct published *p = &published[i];
        if (strcmp(p->suite, s->name) || p->derived) continue;
        const char *by = p->by ? p->by : s->name;
        if (by != heading)
            fprintf(f,
                "\n| %s published | backend | pass | published | tok/s | ours | speedup |\n"
                "|---|---|---|---|---|---|---|\n",
                by);
        heading = by;
        const row *r = beside(b, p);
        snprintf(tokens, sizeof tokens, isfinite(p->tokens_per_s) ? "%.0f" : "-", p->tokens_per_s);
        snprintf(factor, sizeof factor, r ? "%.3g" : "-", r ? p->ms / r->p50_ms : 0);
        fprintf(f, "| B%lld S%lld H%lld D%lld | %s | %s | %s | %s | %s | %s |\n",
            (long long)p->batch, (long long)p->seq, (long long)p->heads, (long long)p->dim,
            p->backend ? p->backend : "their CPU", passes[p->pass], p->figure, tokens,
            r ? human_ms(r->p50_ms, ours) : "not run", factor);
    }
    fputc('\n', f);
}

/* The guide's memory table: theirs, ours as tensors and workspace, and how many times less. Its "MB"
 * are 2^20 bytes: standard's is 4 S^2 for each of 32 heads. */
static void print_guide_memory(FILE *f, const bench *b, const suite *s) {
    fputs("\n| flash_v2 memory, MiB | standard, theirs | ours | flash, theirs | ours | standard / "
          "flash, theirs | ours |\n|---|---|---|---|---|---|---|\n",
        f);
    for (int i = 0; i < COUNT(published_memory); i++) {
        const row *r = NULL, *standard = NULL;
        double theirs = published_memory[i].standard / published_memory[i].flash;
        for (int64_t k = 0; k < b->row_count && !standard; k++)
            if (b->rows[k].c->suite == s && is_memory(&b->rows[k]) &&
                !strcmp(b->rows[k].backend, "flash") && row_ok(&b->rows[k]) &&
                is_published_memory(i, &b->rows[k]))
                r = &b->rows[k], standard = twin(b, r, "standard");
        fprintf(f, "| S %lld | %.4g |", (long long)published_memory[i].seq,
            published_memory[i].standard);
        if (standard)
            fprintf(f, " %.4g | %.4g | %.4g | %.3gx | %.3gx |\n", mebibytes(total_bytes(standard)),
                published_memory[i].flash, mebibytes(total_bytes(r)), theirs, r->memory_factor);
        else
            fprintf(f, " not run | %.4g | not run | %.3gx | not run |\n", published_memory[i].flash,
                theirs);
    }
    fputc('\n', f);
}

/* Forward, backward and both of each case, and the backward as a multiple of the forward; theirs
 * where they published both. */
static void print_directions(FILE *f, const bench *b, const suite *s) {
    bool head = false;
    char name[256];
    for (int64_t i = 0; i < b->row_count; i++) {
        const row *r = &b->rows[i], *both, *backward;
        if (r->c->suite != s || r->c->v[MEASURE] != TIME || r->c->v[PASS] != FWD || !row_ok(r) ||
            !(backward = in_pass(b, r, BWD)) || !(both = in_pass(b, r, FWD_BWD)))
            continue;
        if (!head)
            fprintf(f,
                "\n| %s | backend | forward ms | backward ms | both ms | backward/forward | "
                "theirs | both, vs std |\n|---|---|---|---|---|---|---|---|\n",
                s->name);
        head = true;
        fprintf(f, "| %s | %s | %.4g | %.4g | %.4g | %.2f |", full_name(r, name), r->backend,
            r->p50_ms, backward->p50_ms, both->p50_ms, backward->p50_ms / r->p50_ms);
        fprintf(f, isfinite(backward->theirs) ? " %.2f |" : " - |", backward->theirs / r->theirs);
        fprintf(f, isfinite(both->speedup_vs_standard) ? " %.2f |\n" : " - |\n",
            both->speedup_vs_standard);
    }
    if (head) fputc('\n', f);
}

/* Throughput of flash with n times the work of one sequence, on all threads or, `weak`, on n, over
 * that of one sequence. NaN: not run. */
static double scaled(const bench *b, const suite *s, int64_t n, bool weak) {
    for (int64_t i = 0; i < b->row_count; i++) {
        const row *one = &b->rows[i];
        if (one->c->suite != s || strcmp(one->backend, "flash") || !row_ok(one) ||
            one->c->v[MEASURE] != TIME || one->c->v[PASS] != FWD || one->batch != 1 ||
            (weak && one->threads != 1))
            continue;
        for (int64_t k = 0; k < b->row_count; k++) {
            const row *r = &b->rows[k];
            if (row_ok(r) && r->batch == n && same_series(one, r, BATCH, weak ? THREADS : BATCH) &&
                (weak ? r->threads == n : r->threads == one->threads) && (n > 1 || r == one))
                return r->tokens_per_s / one->tokens_per_s;
        }
    }
    return NAN;
}

/* The guide's scaling beside that of these rows. Weak: each thread has the work of one sequence. */
static void print_guide_scaling(FILE *f, const bench *b, const suite *s) {
    static const struct {
        int64_t n;
        double batch, weak;
    } theirs[] = {
        {1, 1, 1},
        {2, 1.85, 1.92},
        {4, 3.42, 3.68},
        {8, 6.12, 6.88},
        {16, 10.24, NAN},
    };
    fprintf(f,
        "\n| flash_v2 scaling, ours of suite %s: n | batch n, theirs | ours | n threads, a sequence "
        "each, theirs | ours | ours, per thread |\n|---|---|---|---|---|---|\n",
        s->name);
    for (int i = 0; i < COUNT(theirs); i++) {
        double x[] = {theirs[i].batch, scaled(b, s, theirs[i].n, false), theirs[i].weak,
            scaled(b, s, theirs[i].n, true), 0};
        x[4] = x[3] / (double)theirs[i].n;
        fprintf(f, "| %lld |", (long long)theirs[i].n);
        for (int k = 0; k < COUNT(x); k++) {
            bool ours = k == 1 || k >= 3;
            if (isfinite(x[k])) fprintf(f, " %.4g |", x[k]);
            else fputs(ours ? " not run |" : " - |", f);
        }
        fputc('\n', f);
    }
    fputc('\n', f);
}

/* As a percentage, or that it is not known: a clock that rose leaves no share. */
static void print_share(FILE *f, double x, int digits) {
    if (isfinite(x)) fprintf(f, "%.*f%%", digits, 100 * x);
    else fputs("an unknown share", f);
}

/* The most GB/s of each pass, beside what the guide published. */
static void print_guide_bandwidth(FILE *f, const bench *b, const suite *s) {
    static const struct {
        const char *pass;
        double gbytes;
    } theirs[] = {
        {"forward", 612},
        {"backward", 545},
        {"both", 578},
    };
    const double their_peak = 864;
    char name[256];
    for (int pass = FWD; pass <= FWD_BWD; pass++) {
        const row *best = NULL;
        for (int64_t i = 0; i < b->row_count; i++) {
            const row *r = &b->rows[i];
            if (r->c->suite == s && r->c->v[PASS] == pass && row_ok(r) &&
                isfinite(r->gbytes_per_s) && (!best || r->gbytes_per_s > best->gbytes_per_s))
                best = r;
        }
        fprintf(f, "- flash_v2 bandwidth, %s: theirs %.0f of %.0f GB/s (%.1f%%); ours, the most: ",
            theirs[pass].pass, theirs[pass].gbytes, their_peak,
            100 * theirs[pass].gbytes / their_peak);
        if (!best) {
            fputs("not run\n", f);
            continue;
        }
        fprintf(f, "%.4g GB/s (", best->gbytes_per_s);
        print_share(f, best->bandwidth_fraction, 1);
        fprintf(f, " of a read loop), %s %s\n", full_name(best, name), best->backend);
    }
}

/* How much of a call's memory the scores are: openpi's reason for flash. */
static void print_score_share(FILE *f, const bench *b, const suite *s) {
    char name[256];
    for (int64_t i = 0; i < b->row_count; i++) {
        const row *r = &b->rows[i], *flash = twin(b, r, "flash");
        if (r->c->suite != s || !is_memory(r) || strcmp(r->backend, "standard") || !row_ok(r))
            continue;
        fprintf(f, "- openpi, %s: the score matrix is %.1f%% of the memory of standard",
            full_name(r, name), 100 * fmin(score_bytes(r->c), workspace_of(r)) / total_bytes(r));
        if (flash) fprintf(f, ", which is %.3g times that of flash", flash->memory_factor);
        fputc('\n', f);
    }
}

/* The block sizes that the flash_v2 guide recommends, by its own formula (f32 scores and a f16 tile
 * of V): which exceed the sequence they are meant for, and which fit the shared memory of a block
 * on a given chip. */
static void print_shared_memory(FILE *f) {
    static const struct {
        int seq, dim, block;
    } guide[] = {{32, 16, 64}, {64, 32, 128}, {128, 64, 256}, {256, 128, 512}};
    static const struct {
        const char *chip;
        int kib;
    } chips[] = {{"NVIDIA L20 (99 KiB)", 99}, {"H100, H200 (227 KiB)", 227},
        {"AMD gfx9, gfx10, gfx11 (64 KiB)", 64}, {"AMD gfx950 (160 KiB)", 160}};
    for (int i = 0; i < COUNT(guide); i++) {
        int block = guide[i].block, bytes = block * block * 4 + block * guide[i].dim * 2,
            clipped = guide[i].seq;
        fprintf(f,
            "- guide's block %d for S %d, D %d: %d KiB of shared memory; infeasible as published "
            "(the block exceeds the sequence); fits",
            block, guide[i].seq, guide[i].dim, (bytes + 1023) / 1024);
        bool any = false;
        for (int c = 0; c < COUNT(chips); c++)
            if (bytes <= chips[c].kib * 1024)
                fprintf(f, "%s %s", any ? "," : "", chips[c].chip), any = true;
        fprintf(f, "%s; a block of %d needs %d KiB\n", any ? "" : " no chip listed", clipped,
            (clipped * clipped * 4 + clipped * guide[i].dim * 2 + 1023) / 1024);
    }
}

/* What the guide published besides times, beside what was measured here. */
static void conclude_guide(FILE *f, const bench *b, const suite *s) {
    print_directions(f, b, s);
    print_guide_memory(f, b, s);
    print_guide_scaling(f, b, s);
    print_guide_bandwidth(f, b, s);
    print_shared_memory(f);
}

/* A share that openpi aims at; its lower end is what counts. */
static void print_target(
    FILE *f, const char *what, const row *at, double percent, double least, double most) {
    char name[256];
    if (at)
        fprintf(f, "  - %.1f%% %s at %s (target %.0f to %.0f%%): %s\n", percent, what,
            full_name(at, name), least, most, percent >= least ? "reached" : "NOT reached");
    else fprintf(f, "  - %s (target %.0f to %.0f%%): not run\n", what, least, most);
}

/* openpi's targets at the longest sequence measured, of what was measured: the row that saves least
 * is judged, and of the exponents that farthest from 2, whatever their order. */
typedef struct openpi_verdict {
    const row *slowest, *largest; /* the rows judged for time and for memory */
    double less_time, less_memory, standard_exponent;
    int64_t right, wrong;
    judgement all;
} openpi_verdict;

static double speedup_of(const row *r) { return r->speedup_vs_standard; }
static double reduction_of(const row *r) { return r->memory_reduction; }

/* Whether r is judged, and not `other`: of the longest rows the one that saves least. */
static bool is_judged(const row *r, const row *other, double (*saving)(const row *)) {
    return isfinite(saving(r)) && (!other || r->q_len > other->q_len ||
                                      (r->q_len == other->q_len && saving(r) < saving(other)));
}

static void judge_openpi_row(openpi_verdict *x, const row *r) {
    bool flash = !strcmp(r->backend, "flash"), standard = !strcmp(r->backend, "standard");
    bool checks = r->c->v[MEASURE] != TIME && r->c->v[MEASURE] != MEMORY;
    x->right += row_ok(r) && (isfinite(r->max_abs_err) || checks);
    x->wrong += !strcmp(r->status, "wrong") || !strcmp(r->status, "failed") ||
                (!strcmp(r->status, "declined") && (flash || standard));
    flash = flash && row_ok(r);
    if (flash && r->c->v[MEASURE] == TIME && !r->c->v[MASK] && is_judged(r, x->slowest, speedup_of))
        x->slowest = r;
    if (flash && r->c->v[MEASURE] == MEMORY && is_judged(r, x->largest, reduction_of))
        x->largest = r;
    if (standard && r->c->v[MEASURE] == MEMORY && isfinite(r->memory_exponent) &&
        !(fabs(r->memory_exponent - 2) <= fabs(x->standard_exponent - 2)))
        x->standard_exponent = r->memory_exponent;
}

static openpi_verdict openpi_targets(const bench *b, const suite *s) {
    openpi_verdict x = {NULL, NULL, NAN, NAN, NAN, 0, 0, NOT_JUDGED};
    for (int64_t i = 0; i < b->row_count; i++)
        if (b->rows[i].c->suite == s && !is_gpu(&b->rows[i])) judge_openpi_row(&x, &b->rows[i]);
    if (x.slowest) x.less_time = 100 * (1 - 1 / x.slowest->speedup_vs_standard);
    if (x.largest) x.less_memory = 100 * x.largest->memory_reduction;
    bool measured = x.slowest || x.largest || isfinite(x.standard_exponent);
    bool missed =
        x.wrong || x.less_time < 15 || x.less_memory < 50 || fabs(x.standard_exponent - 2) >= 0.35;
    if (measured || x.wrong) x.all = missed ? NOT_REACHED : REACHED;
    return x;
}

static judgement judge_openpi(const bench *b, const suite *s) { return openpi_targets(b, s).all; }

static void conclude_openpi(FILE *f, const bench *b, const suite *s) {
    static const char *const words[] = {"not run", "reached", "NOT reached"};
    openpi_verdict x = openpi_targets(b, s);
    print_score_share(f, b, s);
    fprintf(f, "- openpi verdict, of what was measured: %s\n", words[x.all]);
    print_target(f, "less time than standard", x.slowest, x.less_time, 15, 25);
    print_target(f, "less memory than standard", x.largest, x.less_memory, 50, 80);
    if (!isfinite(x.standard_exponent))
        fputs("  - memory of standard (expected about S^2.0): not run\n", f);
    else
        fprintf(f, "  - memory of standard ~ S^%.2f (expected about 2.0): %s\n",
            x.standard_exponent,
            fabs(x.standard_exponent - 2) < 0.35 ? "as expected" : "NOT as expected");
    fprintf(f, "  - %lld rows right, %lld wrong, failed or declined: %s\n", (long long)x.right,
        (long long)x.wrong,
        x.wrong   ? "NOT correct"
        : x.right ? "correct"
                  : "not run");
}

static bool has_rows(const bench *b, const suite *s) {
    for (int64_t i = 0; i < b->row_count; i++)
        if (b->rows[i].c->suite == s) return true;
    return false;
}

static bool has_published(const suite *s) {
    for (int i = 0; i < COUNT(published); i++)
        if (!strcmp(published[i].suite, s->name)) return true;
    return false;
}

/* What the suites that were run have reached, all of those that judge. */
static judgement judge_suites(const bench *b) {
    judgement all = NOT_JUDGED;
    for (int s = 0; s < COUNT(suites) && all != NOT_REACHED; s++)
        if (suites[s].judge && has_rows(b, &suites[s])) {
            judgement one = suites[s].judge(b, &suites[s]);
            all = one ? one : all;
        }
    return all;
}

/* What suites that do not reach their targets conclude. */
static void print_missed(FILE *f, const bench *b) {
    for (int s = 0; s < COUNT(suites); s++)
        if (suites[s].judge && has_rows(b, &suites[s]) &&
            suites[s].judge(b, &suites[s]) == NOT_REACHED)
            suites[s].conclude(f, b, &suites[s]);
}

/* The fastest backend of r's case; of those that are not clearly apart the one that stands last:
 * flash, not standard. */
static const row *fastest(const bench *b, const row *r) {
    const row *best = NULL;
    for (int64_t i = 0; i < b->row_count; i++) {
        const row *o = &b->rows[i];
        if (o->c == r->c && row_ok(o) && isfinite(o->p50_ms) && (!best || !clearly_faster(best, o)))
            best = o;
    }
    return best;
}

/* The name of a case and what the table has no column for. */
static void case_label(const bench *b, const row *r, char text[256]) {
    snprintf(text, 256, "%s", r->name);
    if (b->opt.wide) return;
    const size_t n = strlen(text);
    if (r->c->v[PASS] != FWD && !strstr(r->c->suite->columns, "pass"))
        snprintf(text + n, 256 - n, " %s", r->pass);
    case_more(r, false, text + strlen(text));
}

static void print_advice_line(FILE *f, const row *r, const char *hint) {
    char more[128];
    case_more(r, true, more);
    fprintf(f, "| %s | %s%s | %s | %s | %.4g | %s: ", r->name, r->dtype, more, r->pass, r->backend,
        r->p50_ms, r->bound);
    print_share(f, r->peak_fraction, 0);
    fputs(" of peak, ", f);
    print_share(f, r->bandwidth_fraction, 0);
    fprintf(f, " of bandwidth | %s |\n", hint);
}

/* Advice from what was measured: the fastest backend for each length, dim and batch, and
 * what bounds it. */
static void print_advice(FILE *f, const bench *b) {
    static const char *const advice[][2] = {
        {"overhead", "too little work for a call: larger batches, or more heads, in one call"},
        {"compute", "near the peak of the machine: a 16-bit type where its dot product is faster, "
                    "or more threads"},
        {"bandwidth",
            "near the speed of memory: a 16-bit or quantised cache, more queries for each key "
            "read (GQA, batching)"},
    };
    bool head = false;
    static const char *const away = "far from its limit: another backend, or instruction set";
    for (int64_t i = 0; i < b->row_count; i++) {
        const row *r = &b->rows[i];
        if (fastest(b, r) != r || !*r->bound) continue;
        if (!head)
            fputs("\n| case | dtype | pass | take | p50 ms | bound by | what to try "
                  "|\n|---|---|---|---|---|---|---|\n",
                f);
        head = true;
        for (int k = 0; k < COUNT(advice); k++)
            if (!strcmp(advice[k][0], r->bound)) {
                const double share = k == 1 ? r->peak_fraction : r->bandwidth_fraction;
                print_advice_line(f, r,
                    k && isnan(share)  ? "how near its limit it is was not measured"
                    : k && share < 0.5 ? away
                                       : advice[k][1]);
            }
    }
}

/* Whether a module of the suite was measured. */
static bool has_modules(const bench *b, const suite *s) {
    for (int64_t i = 0; i < b->row_count; i++)
        if (b->rows[i].c->suite == s && b->rows[i].c->v[MEASURE] == MODULE &&
            isfinite(b->rows[i].gflops))
            return true;
    return false;
}

static void print_their_flops(FILE *f, const bench *b) {
    for (int s = 0; s < COUNT(suites); s++)
        if (suites[s].their_flops && has_rows(b, &suites[s]))
            fprintf(f,
                "- %s counts %s FLOPs for a forward; GFLOP/s here are of 2 for each visible pair, "
                "head and element of a key and a value, the backward 2.5 times that%s\n",
                suites[s].name, suites[s].their_flops,
                has_modules(b, &suites[s]) ? "; those of a module count its projections too" : "");
}

/* The shortest length from which on every length measured of r's series is faster on the GPU, by
 * the time that `of` gives; 0: none. */
static int64_t pays_from(const bench *b, const row *r, double (*of)(const row *)) {
    int64_t from = 0, slower = 0;
    for (int64_t i = 0; i < b->row_count; i++) {
        const row *o = &b->rows[i],
                  *cpu = row_ok(o) && same_series(r, o, SEQ, KV) ? twin(b, o, "flash") : NULL;
        if (cpu && of(o) >= cpu->p50_ms) slower = length_of(o) > slower ? length_of(o) : slower;
    }
    for (int64_t i = 0; i < b->row_count; i++) {
        const row *o = &b->rows[i];
        if (row_ok(o) && same_series(r, o, SEQ, KV) && twin(b, o, "flash") && length_of(o) > slower)
            from = from && from < length_of(o) ? from : length_of(o);
    }
    return from;
}

static void print_length(FILE *f, const char *what, int64_t length) {
    if (length) fprintf(f, "%s from S = %lld on", what, (long long)length);
    else fprintf(f, "%s at no length measured", what);
}

static double kernel_of(const row *r) { return r->kernel_ms; }
static double total_of(const row *r) { return r->total_ms; }

/* The table CPU against GPU, and from which length on the GPU pays; or why there is none. */
static void print_gpu(FILE *f, const bench *b) {
    bool asked = false, head = false;
    char text[32];
    for (int s = 0; s < COUNT(suites); s++) asked |= suites[s].wants_gpu && has_rows(b, &suites[s]);
    for (int i = 0; i < b->backend_count; i++) asked |= !strcmp(b->backends[i], "hip");
    if (*b->no_gpu) {
        if (asked) fprintf(f, "- CPU against GPU: no GPU here: %s\n", b->no_gpu);
        return;
    }
    for (int64_t i = 0; i < b->row_count; i++) {
        const row *r = &b->rows[i], *cpu = twin(b, r, "flash");
        if (!is_gpu(r) || !row_ok(r) || !is_performance(r) || !cpu) continue;
        if (!head)
            fputs("\n| CPU against GPU | dtype | pass | flash ms | hip kernel ms | hip total ms | "
                  "kernel, > 1 is faster | total | GFLOP/s of the kernel | device memory "
                  "|\n|---|---|---|---|---|---|---|---|---|---|\n",
                f);
        head = true;
        fprintf(f, "| %s %s | %s | %s | %.4g | %.4g | %.4g | %.3g | %.3g | %.4g | %s |\n", r->suite,
            r->name, r->dtype, r->pass, cpu->p50_ms, r->kernel_ms, r->total_ms,
            cpu->p50_ms / r->kernel_ms, cpu->p50_ms / r->total_ms, r->flops / r->kernel_ms / 1e6,
            r->device_bytes == NO_INT ? "-" : human_bytes((double)r->device_bytes, text));
    }
    if (head) fputc('\n', f);
    for (int64_t i = 0; i < b->row_count; i++) {
        const row *r = &b->rows[i];
        bool first = is_gpu(r) && row_ok(r) && is_performance(r) && twin(b, r, "flash");
        for (int64_t k = 0; k < i && first; k++)
            first = !(row_ok(&b->rows[k]) && same_series(r, &b->rows[k], SEQ, KV));
        if (!first) continue;
        fprintf(f, "- the GPU against flash on the CPU, %s, as %s (%s, %s): ", r->suite, r->name,
            r->dtype, r->pass);
        print_length(f, "with the copies of host tensors it pays", pays_from(b, r, total_of));
        print_length(f, ", its kernel alone", pays_from(b, r, kernel_of));
        fputc('\n', f);
    }
}

/* What follows from the rows together. */
static void print_findings(FILE *f, const bench *b) {
    print_gpu(f, b);
    print_their_flops(f, b);
    print_exponents(f, b);
    print_crossover(f, b);
    for (int s = 0; s < COUNT(suites); s++) {
        if (!has_rows(b, &suites[s])) continue;
        if (has_published(&suites[s])) print_published(f, b, &suites[s]);
        if (suites[s].conclude) suites[s].conclude(f, b, &suites[s]);
    }
}

/* =============================================================================== >>writers ==== */
enum { LINE_WIDTH = 100 };

/* Microseconds where milliseconds have no digits, seconds where they have too many. */
static void format_time(double ms, char *text, size_t size) {
    double x = ms < 0.1 ? 1e3 * ms : ms < 1e4 ? ms : 1e-3 * ms;
    format_real(x, text, size);
    size_t used = strlen(text);
    snprintf(text + used, size - used, ms < 0.1 ? " us" : ms < 1e4 ? " ms" : " s");
}

static bool is_time(const struct field *f) {
    size_t n = strlen(f->key);
    return f->kind == REAL && n > 3 && !strcmp(f->key + n - 3, "_ms");
}

/* A value as people read it; a median with half of its interval. */
static const char *cell(const row *r, const struct field *f, char text[256]) {
    char spread[32];
    if (row_null(r, f)) return "-";
    if (f->kind == TEXT) return row_text(r, f);
    if (f->kind == LIST) snprintf(text, 64, "%lld", (long long)row_list(r, f).n);
    else if (f->offset == offsetof(row, theirs)) snprintf(text, 64, "%.4g", r->theirs);
    else if (is_time(f)) format_time(row_real(r, f), text, 64);
    else if (f->offset == offsetof(row, max_cert)) format_bound(format_real, r->max_cert, text, 64);
    else if (f->kind == REAL) format_real(row_real(r, f), text, 64);
    else if (strstr(f->key, "_bytes")) human_bytes((double)row_int(r, f), text);
    else snprintf(text, 64, "%lld", (long long)row_int(r, f));
    if (f->offset == offsetof(row, ttft_ms) && isfinite(r->ttft_stddev_ms)) {
        format_time(r->ttft_stddev_ms, spread, sizeof spread);
        snprintf(text + strlen(text), 64, " +-%s", spread);
    }
    if (f->offset == offsetof(row, p50_ms) && isfinite(r->p50_high_ms)) {
        const double below = 100 * (r->p50_ms - r->p50_low_ms) / r->p50_ms,
                     above = 100 * (r->p50_high_ms - r->p50_ms) / r->p50_ms,
                     share = (below + above) / 2;
        char *to = text + strlen(text);
        if (fmax(above, below) > 10 && fmax(above, below) > 2 * fmin(above, below))
            snprintf(to, 32, " -%.0f+%.0f%%", below, above);
        else snprintf(to, 32, share < 9.95 ? " +-%.1f%%" : " +-%.0f%%", share);
    }
    return text;
}

/* ---- markdown: all rows at the end, the columns that not all of them lack */
static int used_columns(const bench *b, const suite *s, const struct field *columns[]) {
    char key[64];
    int n = 0;
    for (const char *rest = s->columns; rest;) {
        rest = take_item(rest, key, sizeof key);
        const struct field *f = find_field(key);
        bool used = false;
        for (int64_t i = 0; f && i < b->row_count && !used; i++)
            used = b->rows[i].c->suite == s && !row_null(&b->rows[i], f);
        if (used) columns[n++] = f;
    }
    return n;
}

static void write_grid(FILE *out, const bench *b, const suite *s) {
    const struct field *columns[COUNT(fields)];
    char text[256];
    int n = used_columns(b, s, columns);
    for (int c = 0; c < n; c++) fprintf(out, "| %s ", columns[c]->heading);
    fputs("|\n", out);
    for (int c = 0; c < n; c++) fputs("| --- ", out);
    fputs("|\n", out);
    for (int64_t i = 0; i < b->row_count; i++) {
        for (int c = 0; c < n && b->rows[i].c->suite == s; c++)
            if (columns[c]->offset == offsetof(row, name)) {
                case_label(b, &b->rows[i], text);
                fprintf(out, "| %s ", text);
            } else fprintf(out, "| %s ", cell(&b->rows[i], columns[c], text));
        fputs(b->rows[i].c->suite == s ? "|\n" : "", out);
    }
    const char *before = "\n";
    for (int64_t i = 0; i < b->row_count; i++) {
        const row *r = &b->rows[i];
        if (r->c->suite != s || !*r->note) continue;
        char more[128];
        case_more(r, false, more);
        fprintf(out, "%s- %s%s, %s, %s: %s\n", before, r->name, more, r->backend, r->pass, r->note);
        before = "";
    }
}

/* ---- the table: a row when it is done, so widths do not wait for the others */
typedef struct column {
    const struct field *field;
    int width;
} column;

/* Whether rows of the suite can have the column: what needs another row or a published figure. */
static bool can_fill(const bench *b, const suite *s, const struct field *f) {
    char name[32];
    const char *backend;
    bool standard = false;
    for (int k = 0; (backend = backend_at(b, s, false, k, name)); k++)
        standard |= !strcmp(backend, "standard");
    if (f->offset == offsetof(row, ratio)) return has_published(s);
    return standard || (f->offset != offsetof(row, speedup_vs_standard) &&
                           f->offset != offsetof(row, memory_reduction) &&
                           f->offset != offsetof(row, memory_factor));
}

static int text_width(const bench *b, const suite *s, const struct field *f) {
    int widest = f->offset == offsetof(row, status)   ? 8
                 : f->offset == offsetof(row, kernel) ? 24
                                                      : 0;
    char name[32];
    const char *backend;
    if (f->offset == offsetof(row, bound) || f->offset == offsetof(row, isa)) widest = 9;
    for (int policy = 0; f->offset == offsetof(row, backend) && policy < 2; policy++)
        for (int k = 0; (backend = backend_at(b, s, policy, k, name)); k++)
            widest = (int)strlen(backend) > widest ? (int)strlen(backend) : widest;
    for (int64_t i = 0; i < b->case_count; i++) {
        row r = new_row(&b->cases[i], "");
        if (b->cases[i].suite == s && (int)strlen(row_text(&r, f)) > widest)
            widest = (int)strlen(row_text(&r, f));
    }
    return widest;
}

static int label_width(const bench *b, const suite *s, int most) {
    int widest = 4;
    char text[256];
    for (int64_t i = 0; i < b->case_count; i++) {
        row r = new_row(&b->cases[i], "");
        case_label(b, &r, text);
        if (b->cases[i].suite == s && (int)strlen(text) > widest && (int)strlen(text) <= most)
            widest = (int)strlen(text);
    }
    return widest < most ? widest : most;
}

/* The columns of a suite with the widths that its values have at most. */
static int table_columns(const bench *b, const suite *s, column columns[]) {
    const char *rest = b->opt.wide ? NULL : s->brief ? s->brief : BRIEF;
    char key[64];
    int n = 0, used = 0;
    for (int i = 0; b->opt.wide && i < COUNT(fields); i++) columns[n++].field = &fields[i];
    while (rest) {
        rest = take_item(rest, key, sizeof key);
        const struct field *f = find_field(key);
        if (can_fill(b, s, f)) columns[n++].field = f;
    }
    for (int c = 0; c < n; c++) {
        const struct field *f = columns[c].field;
        int heading = (int)strlen(f->heading);
        int width = f->kind == TEXT                          ? text_width(b, s, f)
                    : f->offset == offsetof(row, p50_ms)     ? 15
                    : is_time(f) || strstr(f->key, "_bytes") ? 8
                    : f->kind == REAL                        ? 5
                                                             : 4;
        columns[c].width = width > heading ? width : heading;
        used += c ? 1 + columns[c].width : 0;
    }
    if (!b->opt.wide) columns[0].width = label_width(b, s, LINE_WIDTH - used);
    return n;
}

/* Words of a text in lines that fit: the first begins at `first`, the others at `others`. */
static void write_wrapped(FILE *out, const char *text, int first, int others) {
    int at = fprintf(out, "%*s", first, ""), begun = first;
    for (int n; (n = (int)strcspn(text, " \n")) > 0; text += n, text += strspn(text, " \n")) {
        if (at > begun && at + 1 + n > LINE_WIDTH)
            at = begun = fprintf(out, "\n%*s", others, "") - 1;
        at += fprintf(out, "%s%.*s", at > begun ? " " : "", n, text);
    }
    fputc('\n', out);
}

/* Text to the left, numbers to the right; nothing after the last. */
static void write_cell(FILE *out, const column columns[], int c, int n, const char *text) {
    bool left = columns[c].field->kind == TEXT;
    int width = left && c == n - 1 ? 0 : columns[c].width;
    fprintf(out, "%s%*s%s", c ? " " : "", left ? -width : width, text, c == n - 1 ? "\n" : "");
}

static void write_headings(FILE *out, const bench *b, const column columns[], int n) {
    fprintf(out, "\n%s - %s\n", b->heading->name, b->heading->help);
    for (int c = 0; c < n; c++) write_cell(out, columns, c, n, columns[c].field->heading);
}

static void write_table_row(FILE *out, bench *b, const row *r) {
    column columns[COUNT(fields)];
    char text[256], label[256], note[640];
    int n = table_columns(b, r->c->suite, columns);
    if (b->heading != r->c->suite) {
        b->heading = r->c->suite;
        write_headings(out, b, columns, n);
    }
    case_label(b, r, label);
    int place = find_field("case") == columns[0].field ? 0 : 1;
    if (!b->opt.wide && (int)strlen(label) > columns[0].width) {
        if (b->labelled != r->c) /* a long name has a line of its own */
            fprintf(out, "%s\n", label);
        b->labelled = r->c;
        *label = 0;
    }
    for (int c = 0; c < n; c++)
        write_cell(out, columns, c, n, c == place ? label : cell(r, columns[c].field, text));
    if (*r->note && !b->opt.wide) {
        snprintf(note, sizeof note, "%.32s, %.8s: %s", r->backend, r->pass, r->note);
        write_wrapped(out, note, 2, 4);
    }
}

/* Old, new and delta of each row compared. */
static void print_comparisons(FILE *out, const bench *b) {
    char old[64], now[64];
    if (!b->comparison_count) return;
    fputs(
        "\ncompared with the baseline: the fastest tenth of each, the change with its 95% interval, "
        "p of a rank test;\nthe changes of p95 and p99 of all calls\n"
        "verdict       old        new   change  from     to        p      p95     p99\n",
        out);
    for (int64_t i = 0; i < b->comparison_count; i++) {
        const comparison *c = &b->comparisons[i];
        format_time(c->old_ms, old, sizeof old), format_time(c->now_ms, now, sizeof now);
        fprintf(out,
            "%-7s %9s  %9s %+6.1f%% %+6.1f%% %+6.1f%% %8.2g %+6.1f%% %+6.1f%% %s %s, %s %s, %lld thr",
            c->verdict, old, now, 100 * (c->ratio - 1), 100 * (c->low - 1), 100 * (c->high - 1),
            c->p, 100 * (c->p95 - 1), 100 * (c->p99 - 1), c->now->name, c->now->backend,
            c->now->dtype, c->now->pass, (long long)c->now->threads);
        if (strcmp(c->now->kv_dtype, c->now->dtype)) fprintf(out, ", kv %s", c->now->kv_dtype);
        if (c->now->seed != NO_INT && c->now->seed != axes[SEED].normal)
            fprintf(out, ", seed %lld", (long long)c->now->seed);
        if (c->clock >= 1.005) fprintf(out, "; but for a clock %.2fx slower", c->clock);
        fputc('\n', out);
    }
    fputc('\n', out);
}

static void write_machine(const bench *b, char text[512]) {
    char cpu[192], rate[32] = "not measured";
    if (isfinite(b->bandwidth)) snprintf(rate, sizeof rate, "%.1f GB/s", b->bandwidth);
    snprintf(text, 512,
        "attn_bench: %s, %s, %d threads, f32 FMA peak %.1f GFLOP/s, read bandwidth %s, %s",
        cpu_name(cpu), attn_isa(), attn_threads(), b->fma_peak, rate, b->date);
}

static void begin_table(FILE *out, const bench *b) {
    char text[512];
    write_machine(b, text);
    write_wrapped(out, text, 0, 0);
}

static void end_table(FILE *out, const bench *b) {
    fputs(!may_go_on(b) ? "\ninterrupted: the rows that were finished\n\n" : "\n", out);
    print_comparisons(out, b);
    print_findings(out, b);
}

static void write_markdown(FILE *out, const bench *b) {
    char text[512];
    write_machine(b, text);
    fprintf(out, "# %s\n", text);
    for (int s = 0; s < COUNT(suites); s++)
        if (has_rows(b, &suites[s])) {
            fprintf(out, "\n## %s - %s\n\n", suites[s].name, suites[s].help);
            write_grid(out, b, &suites[s]);
        }
    end_table(out, b);
}

static void write_list(FILE *out, list of, const char *between) {
    for (int64_t i = 0; i < of.n; i++) fprintf(out, "%s%.6g", i ? between : "", of.x[i]);
}

static void begin_csv(FILE *out, const bench *b) {
    (void)b;
    for (int f = 0; f < COUNT(fields); f++) fprintf(out, "%s%s", f ? "," : "", fields[f].key);
    fputc('\n', out);
}

static void csv_text(FILE *out, const char *s) {
    if (!strpbrk(s, ",\"\n")) {
        fputs(s, out);
        return;
    }
    fputc('"', out);
    for (; *s; s++) fprintf(out, *s == '"' ? "\"\"" : "%c", *s);
    fputc('"', out);
}

static void write_csv_row(FILE *out, bench *b, const row *r) {
    (void)b;
    for (int k = 0; k < COUNT(fields); k++) {
        const struct field *f = &fields[k];
        fputs(k ? "," : "", out);
        if (row_null(r, f)) continue;
        if (f->kind == REAL) fprintf(out, "%.9g", row_real(r, f));
        else if (f->kind == LIST) write_list(out, row_list(r, f), " ");
        else if (f->kind != TEXT) fprintf(out, "%lld", (long long)row_int(r, f));
        else csv_text(out, row_text(r, f));
    }
    fputc('\n', out);
}

/* Bytes of the UTF-8 character at s; 0: it is none (RFC 3629). */
static int utf8_length(const unsigned char *s) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    int n = *s < 0x80                 ? 1
            : *s >= 0xc2 && *s < 0xe0 ? 2
            : (*s & 0xf0) == 0xe0     ? 3
            : *s < 0xf5               ? 4
                                      : 0;
    if (*s >= 0x80 && *s < 0xc2) return 0;
    uint32_t c = n == 1 ? *s : *s & (0x7fu >> n);
    for (int i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80) return 0;
        c = c << 6 | (s[i] & 0x3f);
    }
    return n && c >= least[n] && c < 0x110000 && !(c >= 0xd800 && c < 0xe000) ? n : 0;
}

/* What is no text, as a name of a file may be, becomes U+FFFD byte by byte. */
static void json_string(FILE *out, const char *s) {
    fputc('"', out);
    for (int n; *s; s += n ? n : 1)
        if (!(n = utf8_length((const unsigned char *)s))) fputs("\xef\xbf\xbd", out);
        else if (n > 1) fwrite(s, 1, (size_t)n, out);
        else if (*s == '"' || *s == '\\') fprintf(out, "\\%c", *s);
        else if ((unsigned char)*s < 32) fprintf(out, "\\u%04x", *s);
        else fputc(*s, out);
    fputc('"', out);
}

static void json_field(FILE *out, const row *r, const struct field *f) {
    if (row_null(r, f)) fputs("null", out);
    else if (f->kind == TEXT) json_string(out, row_text(r, f));
    else if (f->kind == REAL) fprintf(out, "%.9g", row_real(r, f));
    else if (f->kind == LIST)
        fputc('[', out), write_list(out, row_list(r, f), ", "), fputc(']', out);
    else if (f->kind == TRUTH) fputs(row_int(r, f) ? "true" : "false", out);
    else fprintf(out, "%lld", (long long)row_int(r, f));
}

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif
enum { DOCUMENT_VERSION = 2 };

static void json_number(FILE *out, const char *key, double x) {
    fprintf(out, isfinite(x) ? ", \"%s\": %.6g" : ", \"%s\": null", key, x);
}

/* The commit checked out where the program lies; "" elsewhere. */
static const char *source_commit(char text[64]) {
    char path[4096], head[256] = "", name[256] = "", line[512];
    int64_t n = self_file(path);
    *text = 0;
    while (n > 0 && path[n - 1] != '/') n--;
    for (int step = 0; n > 0 && step < 2;
        step++) { /* .git/HEAD names a commit, or the file that does */
        snprintf(path + n, sizeof path - (size_t)n, ".git/%.250s", step ? name : "HEAD");
        FILE *f = fopen(path, "r");
        if (!f || !fgets(head, sizeof head, f)) *head = 0;
        if (f) fclose(f);
        head[strcspn(head, "\n")] = 0;
        if (strncmp(head, "ref: ", 5)) break;
        snprintf(name, sizeof name, "%s", head + 5);
    }
    if (n > 0 && *name && !*head) { /* a branch that git has packed */
        snprintf(path + n, sizeof path - (size_t)n, ".git/packed-refs");
        FILE *f = fopen(path, "r");
        while (f && !*head && fgets(line, sizeof line, f)) {
            line[strcspn(line, "\n")] = 0;
            const char *of = strchr(line, ' ');
            if (of && !strcmp(of + 1, name)) snprintf(head, sizeof head, "%.40s", line);
        }
        if (f) fclose(f);
    }
    if (strspn(head, "0123456789abcdef") == strlen(head)) snprintf(text, 64, "%.12s", head);
    return text;
}

static void begin_json(FILE *out, const bench *b) {
    char cpu[192], commit[64];
    fprintf(out, "{\"version\": %d,\n \"context\": {\"cpu\": ", DOCUMENT_VERSION);
    json_string(out, cpu_name(cpu));
    fprintf(out, ", \"isa\": \"%s\", \"threads\": %d, \"compiler\": ", attn_isa(), attn_threads());
    json_string(out, COMPILER);
    fputs(", \"commit\": ", out);
    if (*source_commit(commit)) json_string(out, commit);
    else fputs("null", out);
    fprintf(out, ", \"date\": \"%s\"", b->date);
    json_number(out, "fma_peak_gflops", b->fma_peak);
    json_number(out, "dot_peak_gflops", b->dot_peak);
    json_number(out, "read_bandwidth_gbytes", b->bandwidth);
    fputs(", \"command\": [", out);
    for (int i = 0; i < b->argc; i++) {
        fputs(i ? ", " : "", out);
        json_string(out, b->argv[i]);
    }
    fputs("]},\n \"rows\": [\n", out);
}

/* A row is one line, and ends when it is written. */
static void write_json_line(FILE *out, const row *r, bool first) {
    for (int f = 0; f < COUNT(fields); f++) {
        fputs(f ? ", " : first ? "   {" : "  ,{", out);
        fprintf(out, "\"%s\": ", fields[f].key);
        json_field(out, r, &fields[f]);
    }
    fputs("}\n", out);
}

static void write_json_row(FILE *out, bench *b, const row *r) {
    write_json_line(out, r, r == b->rows);
}

static void json_comparisons(FILE *out, const bench *b) {
    fputs(" ],\n \"comparison\": [", out);
    for (int64_t i = 0; i < b->comparison_count; i++) {
        const comparison *c = &b->comparisons[i];
        fputs(i ? ",\n  {\"suite\": " : "\n  {\"suite\": ", out);
        json_string(out, c->now->suite);
        fputs(", \"case\": ", out), json_string(out, c->now->name);
        fputs(", \"backend\": ", out), json_string(out, c->now->backend);
        fprintf(out,
            ", \"dtype\": \"%s\", \"kv_dtype\": \"%s\", \"pass\": \"%s\", \"threads\": %lld, \"seed\": %lld",
            c->now->dtype, c->now->kv_dtype, c->now->pass, (long long)c->now->threads,
            (long long)c->now->seed);
        json_number(out, "old_ms", c->old_ms);
        json_number(out, "new_ms", c->now_ms);
        json_number(out, "delta", c->ratio - 1);
        json_number(out, "delta_low", c->low - 1);
        json_number(out, "delta_high", c->high - 1);
        json_number(out, "delta_p95", c->p95 - 1);
        json_number(out, "delta_p99", c->p99 - 1);
        json_number(out, "clock", c->clock);
        json_number(out, "p", c->p);
        fprintf(out, ", \"verdict\": \"%s\"}", c->verdict);
    }
    fputs("],\n", out);
}

/* What the rows together say. */
static void end_json(FILE *out, const bench *b) {
    int64_t compared, lost = count_crossovers(b, &compared);
    json_comparisons(out, b);
    fprintf(out, " \"crossover\": {\"cases\": %lld, \"standard_faster\": [", (long long)compared);
    for (int64_t i = 0, n = 0; i < b->row_count && n < lost; i++) {
        const row *r = &b->rows[i];
        if (!is_crossover(b, r)) continue;
        fputs(n++ ? ", " : "", out);
        fputs("{\"suite\": ", out), json_string(out, r->suite);
        fputs(", \"case\": ", out), json_string(out, r->name);
        fprintf(out, ", \"dtype\": \"%s\", \"kv_dtype\": \"%s\", \"pass\": \"%s\", \"seed\": %lld",
            r->dtype, r->kv_dtype, r->pass, (long long)r->c->v[SEED]);
        if (r->threads != NO_INT) fprintf(out, ", \"threads\": %lld", (long long)r->threads);
        fprintf(out, ", \"factor\": %.4g}", 1 / r->speedup_vs_standard);
    }
    static const char *const verdicts[] = {"null", "\"reached\"", "\"not reached\""};
    fprintf(out, "]},\n \"verdict\": %s, \"interrupted\": %s}\n", verdicts[judge_suites(b)],
        may_go_on(b) ? "false" : "true");
}

/* One document of the rows that `wanted` takes. */
static void write_document(FILE *out, const bench *b, bool (*wanted)(const row *)) {
    bool first = true;
    begin_json(out, b);
    for (int64_t i = 0; i < b->row_count; i++)
        if (wanted(&b->rows[i])) {
            write_json_line(out, &b->rows[i], first);
            first = false;
        }
    end_json(out, b);
}

static void write_nothing(FILE *out, const bench *b) { (void)out, (void)b; }
static void write_no_row(FILE *out, bench *b, const row *r) { (void)out, (void)b, (void)r; }

static const writer writers[] = {
    {"table", begin_table, write_table_row, end_table},
    {"csv", begin_csv, write_csv_row, write_nothing},
    {"json", begin_json, write_json_row, end_json},
    {"markdown", write_nothing, write_no_row, write_markdown},
};

/* =============================================================================== >>reports ==== */
static void write_summary(FILE *out, const bench *b) {
    write_markdown(out, b);
    fputs("\n## Advice\n", out);
    print_advice(out, b);
}

static void write_performance(FILE *out, const bench *b) { write_document(out, b, is_performance); }
static void write_memory(FILE *out, const bench *b) { write_document(out, b, is_memory); }
static void write_correctness(FILE *out, const bench *b) { write_document(out, b, is_correctness); }

static void write_points(FILE *, const bench *);

static const struct {
    const char *name;
    void (*write)(FILE *, const bench *);
    bool of_plots; /* with --plot alone */
} reports[] = {
    {"performance_results.json", write_performance, false},
    {"memory_results.json", write_memory, false},
    {"correctness_results.json", write_correctness, false},
    {"summary_report.md", write_summary, false},
    {"plots.csv", write_points, true},
};
enum { POINTS = COUNT(reports) - 1 }; /* the report that the plots are drawn from */

/* What a row may take in the result files. */
enum { ROW_BYTES = 4096, SAMPLE_BYTES = 10, DOCUMENT_BYTES = 65536 };

/* Whether f is the file of that name. */
static bool is_open_file(const char *path, FILE *f) {
    struct stat x, y;
    return f && !stat(path, &x) && !fstat(fileno(f), &y) && x.st_ino && x.st_ino == y.st_ino &&
           x.st_dev == y.st_dev;
}

/* Before anything is measured: the file can be written, and there is room for what may be in it. */
static int check_writable(const bench *b, const char *path) {
    static const char zeros[ROW_BYTES];
    char temporary[4096];
    struct stat there;
    if (!path) return 0;
    if (stat(path, &there) && errno != ENOENT) return refuse("%s: %s", path, strerror(errno));
    if (is_open_file(path, document) || is_open_file(path, stderr))
        return refuse("%s: is what stdout or stderr is written to", path);
    FILE *f = create(path, temporary);
    if (!f) return EXIT_BAD;
    int64_t blocks = DOCUMENT_BYTES / ROW_BYTES + b->row_total;
    for (int64_t i = 0; i < b->case_count; i++)
        blocks +=
            b->cases[i].v[ITERATIONS] * SAMPLE_BYTES / ROW_BYTES * b->row_total / b->case_count;
    for (int64_t i = 0; i < blocks && !ferror(f); i++) fwrite(zeros, 1, sizeof zeros, f);
    bool room = !ferror(f) && !fflush(f);
    int error = errno;
    room = !fclose(f) && room;
    unlink(temporary);
    return room ? 0 : refuse("%s: %s", path, strerror(error));
}

/* Each over the length or, the last, over the bytes. */
static double plot_ms(const row *r) { return r->p50_ms; }
static double plot_gflops(const row *r) { return r->gflops; }
static double plot_memory(const row *r) { return total_bytes(r) / 1048576; }
static double plot_fraction(const row *r) { return r->peak_fraction; }
static double x_length(const row *r) { return (double)length_of(r); }
static double x_bytes(const row *r) { return r->bytes / 1048576; }
static const struct plot {
    const char *file, *title, *x_label, *y_label;
    bool log_y, has_spread;
    double (*x)(const row *), (*y)(const row *);
} plots[] = {
    {"time.svg", "Time of one call", "tokens S",
        "ms: median, from the fastest call to the 95th percentile", true, true, x_length, plot_ms},
    {"gflops.svg", "Rate", "tokens S", "GFLOP/s", false, false, x_length, plot_gflops},
    {"memory.svg", "Tensors and workspace", "tokens S", "MiB", true, false, x_length, plot_memory},
    {"peak.svg", "Share of the measured peak", "tokens S", "fraction of the peak", false, false,
        x_length, plot_fraction},
    {"roofline.svg", "Rate over traffic", "MiB that a call must move", "GFLOP/s", true, false,
        x_bytes, plot_gflops},
};
enum { MOST_CURVES = 12 };

/* Whether a row has a point in a plot. Memory is drawn from the rows that measured it, where
 * there are any. */
static bool is_point(const bench *b, const row *r, const struct plot *p) {
    bool other = p->y == plot_memory && !is_memory(r);
    for (int64_t k = 0; other && k < b->row_count; k++)
        if (is_memory(&b->rows[k])) return false;
    return row_ok(r) && !is_correctness(r) && p->y(r) > 0;
}

/* Reports, then plots. */
enum { MOST_FILES = COUNT(reports) + COUNT(plots) };

static void report_path(char path[4096], const char *dir, int i) {
    snprintf(path, 4096, "%.3000s/%s", dir,
        i < COUNT(reports) ? reports[i].name : plots[i - COUNT(reports)].file);
}

static bool is_wanted(const bench *b, int i) {
    return b->opt.plot || (i < COUNT(reports) && !reports[i].of_plots);
}

/* Removes the directories of a path from its end up to the one of `first` characters. */
static void remove_directories(const char *dir, size_t first) {
    char path[4096];
    snprintf(path, sizeof path, "%s", dir);
    for (size_t i = strlen(dir); first && i >= first; i--)
        if (!dir[i] || dir[i] == '/') {
            path[i] = 0;
            rmdir(path);
        }
}

/* Makes a directory and those above it, or none; `made`: the length of the first that was made. */
static int make_directories(const char *dir, size_t *made) {
    char path[4096];
    size_t length = strlen(dir);
    int error = 0;
    snprintf(path, sizeof path, "%s", dir);
    for (size_t i = 1; i <= length && !error; i++) {
        if (dir[i] && dir[i] != '/') continue;
        path[i] = 0;
        if (make_directory(path)) *made = *made ? *made : i;
        else if (errno != EEXIST) error = errno;
        path[i] = dir[i];
    }
    if (!error) return 0;
    remove_directories(dir, *made);
    return refuse("--output-dir %s: %s", dir, strerror(error));
}

static bool is_same_file(const char *a, const char *b) {
    struct stat x, y;
    return a && b && !stat(a, &x) && !stat(b, &y) &&
           (x.st_ino ? x.st_ino == y.st_ino && x.st_dev == y.st_dev : !strcmp(a, b));
}

/* Whether a file is one of those that --output-dir gets, be it there yet or not. */
static int overwrites_report(const bench *b, const char *flag, const char *path) {
    char report[4096], folder[4096];
    const char *dir = b->opt.output_dir, *slash = path ? strrchr(path, '/') : NULL;
    const int length = slash == path ? 1 : slash ? (int)(slash - path) : 0;
    snprintf(folder, sizeof folder, "%.*s", slash ? length : 1, slash ? path : ".");
    for (int i = 0; path && dir && i < MOST_FILES; i++) {
        report_path(report, dir, i);
        if (is_wanted(b, i) && is_same_file(folder, dir) &&
            !strcmp(strrchr(report, '/') + 1, slash ? slash + 1 : path))
            return refuse("--%s %s: is a file of --output-dir, too", flag, path);
    }
    return 0;
}

/* Before anything is measured: the directory is there and all files can be written, or none is. */
static int prepare_files(const bench *b) {
    const options *o = &b->opt;
    char path[4096];
    size_t made = 0;
    int bad = o->output_dir ? make_directories(o->output_dir, &made) : 0;
    if (bad) return bad;
    bad = overwrites_report(b, "output", o->output) ||
          overwrites_report(b, "save-baseline", o->save_baseline) || check_writable(b, o->output) ||
          check_writable(b, o->save_baseline);
    for (int i = 0; o->output_dir && i < MOST_FILES && !bad; i++) {
        report_path(path, o->output_dir, i);
        if (is_wanted(b, i)) bad = check_writable(b, path);
    }
    if (bad && o->output_dir) remove_directories(o->output_dir, made);
    return bad ? EXIT_BAD : 0;
}

/* Whether row i begins a curve: first of its series, and the series has at least two lengths. */
static bool begins_curve(const bench *b, int64_t i, const struct plot *p) {
    int64_t points = 0;
    for (int64_t k = 0; k < b->row_count && is_point(b, &b->rows[i], p); k++)
        if (is_point(b, &b->rows[k], p) && same_series(&b->rows[i], &b->rows[k], SEQ, KV)) {
            if (k < i) return false;
            points++;
        }
    return points > 1;
}

/* A curve is named by what tells its series from the others: its case without the length. There is
 * no comma in it, which gnuplot reads as the end of a cell, in quotes too. */
static void curve_title(const row *r, char text[1024]) {
    const char *s = strstr(r->name, " S"), *rest = s ? strchr(s + 1, ' ') : NULL;
    int batch = s ? (int)(s - r->name) : 0;
    char kv[16] = "", seed[32] = "", keys[32] = "";
    if (keys_stay(r->c)) snprintf(keys, sizeof keys, " %lld keys", (long long)r->kv_len);
    if (strcmp(r->kv_dtype, r->dtype)) snprintf(kv, sizeof kv, " kv %.8s", r->kv_dtype);
    if (r->c->v[SEED] != axes[SEED].normal)
        snprintf(seed, sizeof seed, " seed %lld", (long long)r->c->v[SEED]);
    snprintf(text, 1024, "%s: %.*s%s%s %s%s %s%s %d thread%s", r->backend, batch, r->name, keys,
        rest ? rest : "", r->dtype, kv, r->pass, seed, (int)r->threads, r->threads > 1 ? "s" : "");
    for (char *c = text; (c = strchr(c, ',')) != NULL;) *c = '/';
}

/* What tells a curve from the others of its plot. Backends of one series share a colour and a
 * shape: flash solid and filled, the others dashed. */
typedef struct curve {
    char title[1024];
    int shape;
    bool filled;
} curve;

/* The points of the series that row `first` begins, by their place on the x axis. */
static void write_curve(
    FILE *out, const bench *b, const struct plot *p, int64_t first, int number, const curve *c) {
    double(*point)[4] = malloc((size_t)b->row_count * sizeof *point);
    int64_t n = 0;
    for (int64_t k = first; point && k < b->row_count; k++) {
        const row *r = &b->rows[k];
        if (!is_point(b, r, p) || !same_series(&b->rows[first], r, SEQ, KV)) continue;
        point[n][0] = p->x(r), point[n][1] = p->y(r);
        point[n][2] = p->has_spread ? r->min_ms : p->y(r);
        point[n++][3] = p->has_spread ? r->p95_ms : p->y(r);
    }
    if (point) qsort(point, (size_t)n, sizeof *point, by_size);
    for (int64_t k = 0; k < n; k++) {
        fprintf(out, "%s,%d,", p->file, number);
        csv_text(out, c->title);
        fprintf(out, ",%d,%d,%g,%g,%g,%g\n", c->shape, c->filled, point[k][0], point[k][1],
            point[k][2], point[k][3]);
    }
    free(point);
}

/* The curves of a plot, as many as it has room for. */
static void write_curves(FILE *out, const bench *b, const struct plot *p) {
    static curve curves[MOST_CURVES];
    int count = 0, shapes = 0;
    for (int64_t i = 0; i < b->row_count && count < MOST_CURVES; i++) {
        if (!begins_curve(b, i, p)) continue;
        curve *c = &curves[count];
        int like = 0;
        curve_title(&b->rows[i], c->title);
        while (strcmp(strchr(curves[like].title, ':'), strchr(c->title, ':'))) like++;
        c->shape = like < count ? curves[like].shape : shapes++;
        c->filled = !strcmp(b->rows[i].backend, "flash");
        write_curve(out, b, p, i, ++count, c);
    }
}

static void write_points(FILE *out, const bench *b) {
    fputs("plot,curve,title,shape,filled,x,y,low,high\n", out);
    for (int p = 0; p < COUNT(plots); p++) write_curves(out, b, &plots[p]);
}

/* Draws any of the plots from plots.csv: `csv`, which rows: `name`; `title`, `subtitle`, `x_label`,
 * `y_label`, `log_y`, `has_spread`. It writes to its standard output. */
static const char plot_script[] =
    "set terminal svg noenhanced size 1100,760 font 'sans,13' background rgb 'white'\n"
    "set datafile separator comma\n"
    "set key below maxrows 6 samplen 3\n"
    "set linetype 5 linecolor rgb '#806000'\n"
    "set grid\n"
    "set title title.\"\\n\".subtitle\n"
    "set xlabel x_label offset 0,0.6\n"
    "set ylabel y_label\n"
    "set logscale x 2\n"
    "set yrange [0:*]\n"
    "if (log_y) { set yrange [*:*]; set logscale y }\n"
    "# what the curves are called and look like, a word for each\n"
    "curves = 0; titles = ''; shapes = ''; fillings = ''\n"
    "stats csv using (strcol(1) eq name && $2 > curves ? (curves = int($2), \\\n"
    "    titles = titles.'\"'.strcol(3).'\" ', shapes = shapes.strcol(4).' ', \\\n"
    "    fillings = fillings.strcol(5).' ', 0) : 0) nooutput\n"
    "shape(c) = int(word(shapes, c))\n"
    "filled(c) = int(word(fillings, c))\n"
    "x(plot, number, c, at) = plot eq name && number == c ? at : NaN\n"
    "if (has_spread) {\n"
    "    plot for [c = 1:curves] csv using (x(strcol(1), $2, c, $6)):7:8:9 with yerrorlines \\\n"
    "        lc shape(c) + 1 pt 4 + 2 * (shape(c) % 5) + filled(c) dt 2 - filled(c) \\\n"
    "        title word(titles, c)\n"
    "} else {\n"
    "    plot for [c = 1:curves] csv using (x(strcol(1), $2, c, $6)):7 with linespoints \\\n"
    "        lc shape(c) + 1 pt 4 + 2 * (shape(c) % 5) + filled(c) dt 2 - filled(c) \\\n"
    "        title word(titles, c)\n"
    "}\n";

/* A text between single quotes, in which gnuplot runs nothing; a quote is doubled. */
static void set_parameter(FILE *script, const char *name, const char *text) {
    fprintf(script, "%s = '", name);
    for (; *text; text++)
        fprintf(script, *text == '\'' ? "''" : "%c", (unsigned char)*text < 32 ? ' ' : *text);
    fputs("'\n", script);
}

static void set_parameters(FILE *script, const bench *b, const struct plot *p, int csv) {
    char cpu[192], text[512];
    int64_t left_out = -MOST_CURVES;
    for (int64_t i = 0; i < b->row_count; i++) left_out += begins_curve(b, i, p);
    snprintf(text, sizeof text, "/dev/fd/%d", csv);
    set_parameter(script, "csv", text);
    set_parameter(script, "name", p->file);
    snprintf(text, sizeof text, "%s%s", p->title, left_out > 0 ? " (first curves)" : "");
    set_parameter(script, "title", text);
    int used = snprintf(text, sizeof text, "%s, %s, %d threads, %.10s", cpu_name(cpu), attn_isa(),
        attn_threads(), b->date);
    if (left_out > 0)
        snprintf(text + used, sizeof text - (size_t)used,
            "; %d more curves are in the result files", (int)left_out);
    set_parameter(script, "subtitle", text);
    set_parameter(script, "x_label", p->x_label);
    set_parameter(script, "y_label", p->y_label);
    fprintf(script, "log_y = %d\nhas_spread = %d\n", p->log_y, p->has_spread);
}

/* Draws from the points in the file of that name, which the script knows by its number alone: no
 * name of a file is in it. */
static bool draw_plot(
    FILE *out, const char *path, const char *points, const bench *b, const struct plot *p) {
    static const char *const gnuplot[] = {"gnuplot", "-", NULL};
    char temporary[4096];
    FILE *csv = fopen(points, "rb"), *script = csv ? create(path, temporary) : NULL;
    bool good = script != NULL;
    if (good) {
        unlink(temporary);
        set_parameters(script, b, p, fileno(csv));
        fputs(plot_script, script);
        good = !fflush(script) && !ferror(script) && !fseek(script, 0, SEEK_SET) &&
               run_program(gnuplot, fileno(script), fileno(out));
        fclose(script);
    }
    if (csv) fclose(csv);
    return good && !fseek(out, 0, SEEK_END) && ftell(out) > 0;
}

/* Whether anything has two points to draw a curve through. */
static bool has_curve(const bench *b, const struct plot *p) {
    for (int64_t i = 0; i < b->row_count; i++)
        if (begins_curve(b, i, p)) return true;
    return false;
}

/* Report i or the plot after them, whole under a temporary name; 0 or EXIT_BAD after one line. */
static int write_report(
    const bench *b, int i, const char *path, const char *points, char temporary[4096]) {
    const struct plot *plot = i < COUNT(reports) ? NULL : &plots[i - COUNT(reports)];
    FILE *f = create(path, temporary);
    if (!f) return *temporary = 0, EXIT_BAD;
    bool drawn = plot && draw_plot(f, path, points, b, plot);
    if (!plot) reports[i].write(f, b);
    bool whole = !ferror(f) && reach_disk(f);
    int error = errno;
    whole = !fclose(f) && whole;
    if (plot && !drawn) return refuse("%s: gnuplot could not draw it", path);
    return whole ? 0 : refuse("%s: %s", path, strerror(error));
}

/* All reports and plots, or none of them. */
static int write_reports(const bench *b, const char *dir) {
    static char path[MOST_FILES][4096], temporary[MOST_FILES][4096];
    int bad = 0, count = 0;
    memset(temporary, 0, sizeof temporary);
    for (int i = 0; i < MOST_FILES && !bad; i++) {
        if (!is_wanted(b, i) || (i >= COUNT(reports) && !has_curve(b, &plots[i - COUNT(reports)])))
            continue;
        report_path(path[i], dir, i);
        bad = write_report(b, i, path[i], temporary[POINTS], temporary[i]);
        count = i + 1;
    }
    if (b->opt.plot && !bad && count <= COUNT(reports))
        fputs("attn_bench: --plot: a curve needs two lengths\n", stderr);
    for (int i = 0; i < count && !bad; i++)
        if (*temporary[i] && !replace_file(temporary[i], path[i]))
            bad = refuse("%s: %s", path[i], strerror(errno));
    for (int i = 0; i < count && bad; i++)
        if (*temporary[i]) unlink(temporary[i]);
    return bad;
}

/* ============================================================================== >>baseline ==== */
/* A saved run is the CSV of its rows, samples and all, after one line that says what it is, the ISA
 * and the processor, and before one that says that nothing was cut off. What one process measures hangs on where its memory and threads happen to lie,
 * so that two runs of the same program may differ by more than a slower program does: a run is
 * saved and compared by several processes, each of which gives a row of its own (Kalibera and Jones,
 * "Rigorous benchmarking in reasonable time", 2013). All but the first only take samples. */
enum { BASELINE_VERSION = 3 };
static const char BASELINE_MARK[] = "# attn_bench baseline", BASELINE_END[] = "# end\n";

typedef struct baseline {
    const char *path;
    char isa[32], cpu[192];
    row *rows;
    int64_t count;
    char wrong[128]; /* why it cannot be read, or "" */
} baseline;

static int save_baseline(bench *b, const char *path) {
    char temporary[4096], cpu[192];
    FILE *f = create(path, temporary);
    if (!f) return EXIT_BAD;
    fprintf(f, "%s %d, %s, %s\n", BASELINE_MARK, BASELINE_VERSION, attn_isa(), cpu_name(cpu));
    begin_csv(f, b);
    for (int64_t i = 0; i < b->row_count; i++) write_csv_row(f, b, &b->rows[i]);
    for (int64_t i = 0; i < b->repeat_count; i++) write_csv_row(f, b, &b->repeats[i]);
    fputs(BASELINE_END, f);
    return commit(f, path, temporary);
}

/* ---- reading */
/* The next cell of a line, in place; `end`: what stood after it, a comma or a line's end, 0 at the
 * end of the file. NULL: a quote is not closed, or followed by something else. */
static char *next_cell(char **at, char *end) {
    char *cell = *at, *to = cell;
    bool quoted = *cell == '"';
    char *from = cell + quoted;
    for (; *from && (quoted || (*from != ',' && *from != '\n')); from++) {
        if (quoted && *from == '"' && *++from != '"') break;
        *to++ = *from;
    }
    if (quoted && from[-1] != '"') return NULL;
    *end = *from;
    if (*end && *end != ',' && *end != '\n') return NULL;
    *at = from + (*from != 0);
    *to = 0;
    return cell;
}

static bool parse_list(char *text, list *to) {
    char *end;
    for (char *at = text; *at; at = end + (*end == ' ')) {
        double x = strtod(at, &end);
        if (end == at || (*end && *end != ' ') || !isnormal(x) || x <= 0) return false;
        to->x = grow(to->x, to->n, sizeof *to->x);
        to->x[to->n++] = x;
    }
    return true;
}

/* Puts a cell into the row; false when it is not of the field's kind. An empty cell is null. */
static bool take_cell(row *r, const struct field *f, char *text) {
    char *at = (char *)r + f->offset, *end = text;
    if (!*text) return true;
    errno = 0;
    if (f->kind == LIST) return parse_list(text, (list *)(void *)at);
    if (f->kind == TEXT) snprintf(at, sizeof r->name, "%s", text);
    else if (f->kind == REAL) *(double *)(void *)at = strtod(text, &end);
    else *(int64_t *)(void *)at = strtoll(text, &end, 10);
    return f->kind == TEXT || (end != text && !*end && !errno);
}

/* The line of headings: a field for each column, NULL for one that this program does not
 * know. Returns how many; 0, said in to->wrong: they are no headings, or what a comparison
 * needs is missing. */
static int take_headings(char **at, const struct field *columns[], baseline *to) {
    static const char *const needed[] = {
        "suite", "case", "backend", "dtype", "kv_dtype", "pass", "threads", "status", "samples_ms"};
    bool found[COUNT(needed)] = {false};
    int n = 0;
    snprintf(to->wrong, sizeof to->wrong, "has no line of headings");
    for (char end = ','; end == ','; n++) {
        char *cell = next_cell(at, &end);
        if (!cell || n == 2 * COUNT(fields) || !end) return 0;
        columns[n] = find_field(cell);
        for (int i = 0; i < n; i++)
            if (columns[n] && columns[i] == columns[n]) {
                snprintf(to->wrong, sizeof to->wrong, "has the column %s twice", columns[n]->key);
                return 0;
            }
        for (int i = 0; i < COUNT(needed); i++) found[i] |= !strcmp(cell, needed[i]);
    }
    *to->wrong = 0;
    for (int i = 0; i < COUNT(needed); i++)
        if (!found[i]) {
            snprintf(to->wrong, sizeof to->wrong, "has no column %s", needed[i]);
            return 0;
        }
    return n;
}

/* The lines after the headings, to BASELINE_END; false, said in to->wrong, where one is not a row. */
static bool take_rows(char *at, const struct field *columns[], int n, baseline *to) {
    while (*at && *at != *BASELINE_END) {
        row r = null_row();
        const char *why = NULL;
        char end = ',';
        for (int c = 0; c < n && !why; c++) {
            char *cell = end == ',' ? next_cell(&at, &end) : NULL;
            if (!cell || (!end && c < n)) why = "is truncated, or has too few cells";
            else if (columns[c] && !take_cell(&r, columns[c], cell)) why = "has a wrong number";
        }
        if (!why && end != '\n') why = "has too many cells";
        if (why) {
            free(r.samples_ms.x);
            snprintf(to->wrong, sizeof to->wrong, "row %lld %s", (long long)to->count + 1, why);
            return false;
        }
        to->rows = grow(to->rows, to->count, sizeof *to->rows);
        to->rows[to->count++] = r;
    }
    if (!to->count) snprintf(to->wrong, sizeof to->wrong, "has no rows");
    else if (strcmp(at, BASELINE_END))
        snprintf(to->wrong, sizeof to->wrong, "is truncated: it ends after row %lld",
            (long long)to->count);
    return !*to->wrong;
}

/* Lines end with a newline, as they were written, where what kept the file ended them with a
 * carriage return, too. */
static void restore_line_ends(char *text) {
    char *to = text;
    for (const char *from = text; (*to = *from) != 0; from++)
        to += *from != '\r' || from[1] != '\n';
}

/* The text of a baseline; NULL or what is wrong with it. */
static const char *parse_baseline(char *text, baseline *to) {
    const struct field *columns[2 * COUNT(fields)];
    size_t mark = sizeof BASELINE_MARK - 1;
    long long version = 0;
    int used = 0;
    restore_line_ends(text);
    if (strncmp(text, BASELINE_MARK, mark)) return "is not a run saved by --save-baseline";
    if (sscanf(text + mark, " %lld, %31[^,], %191[^\n]%n", &version, to->isa, to->cpu, &used) < 1 ||
        version != BASELINE_VERSION)
        return "is of another version of attn_bench";
    char *at = text + mark + used;
    if (!used || *at++ != '\n') return "is truncated";
    int n = take_headings(&at, columns, to);
    return n && take_rows(at, columns, n, to) ? NULL : to->wrong;
}

static void free_baseline(baseline *b) {
    free_rows(b->rows, b->count);
    b->rows = NULL, b->count = 0;
}

/* All of a file, zero terminated; NULL: out of memory, errno, or more than MOST_TEXT. */
enum { MOST_TEXT = 1 << 30 };
static char *read_text(FILE *f) {
    char *text = NULL;
    size_t size = 0, got = 0;
    do {
        size += got;
        char *larger = size <= MOST_TEXT ? realloc(text, size + 65537) : NULL;
        if (!larger) {
            free(text);
            return NULL;
        }
        text = larger;
    } while ((got = fread(text + size, 1, 65536, f)) > 0);
    text[size] = 0;
    return text;
}

/* Reads a saved run; 0, or EXIT_BAD after one line. */
static int load_baseline(const char *flag, const char *path, baseline *to) {
    FILE *f = fopen(path, "rb");
    memset(to, 0, sizeof *to);
    to->path = path;
    if (!f) return refuse("--%s %s: %s", flag, path, strerror(errno));
    char *text = read_text(f);
    const char *why = ferror(f) ? strerror(errno)
                      : !text   ? "has more than 1 GiB, or does not fit in memory"
                                : parse_baseline(text, to);
    fclose(f);
    free(text);
    if (!why) return 0;
    free_baseline(to);
    return refuse("--%s %s: %s", flag, path, why);
}

/* ---- processes */
/* One process more measures the same cases; its rows join b->repeats. */
static bool repeat_run(bench *b) {
    const struct field *columns[2 * COUNT(fields)];
    const char **argv = calloc((size_t)b->argc + 2, sizeof *argv);
    char self[4096];
    FILE *out = self_path(self) ? tmpfile() : NULL;
    baseline got = {0};
    char *text = NULL;
    if (argv && out) {
        argv[0] = self;
        for (int i = 1; i < b->argc; i++) argv[i] = b->argv[i];
        argv[b->argc] = "--repeated";
        run_program(argv, -1, fileno(out)); /* what it found wrong, its rows say */
        rewind(out);
        text = read_text(out);
    }
    char *at = text;
    int n = text ? take_headings(&at, columns, &got) : 0;
    bool good = n && take_rows(at, columns, n, &got);
    for (int64_t i = 0; good && i < got.count; i++) {
        b->repeats = grow(b->repeats, b->repeat_count, sizeof *b->repeats);
        b->repeats[b->repeat_count++] = got.rows[i];
    }
    if (good) free(got.rows); /* their samples are those of b->repeats */
    else free_baseline(&got);
    if (out) fclose(out);
    free(text), free(argv);
    return good;
}

static int64_t processes_of(const options *o) {
    return !o->save_baseline && !o->baseline ? 1 : o->processes ? o->processes : DEFAULT_PROCESSES;
}

/* So many processes more, one after the other. False after one line. */
static bool repeat_runs(bench *b, int64_t processes) {
    bool good = true;
    for (int64_t i = 0; i < processes && good && may_go_on(b); i++) {
        if (isatty(STDERR_FILENO))
            fprintf(stderr, "\r[%lld of %lld processes more]\033[K", (long long)i + 1,
                (long long)processes);
        good = repeat_run(b) || interrupted;
    }
    clear_progress();
    if (!good) refuse("a process more did not measure what this one did");
    return good;
}

/* ---- statistics */
/* The least p that so many samples can have. */
static double least_p(int64_t n, int64_t m) {
    double ways = 1;
    for (int64_t i = 1; i <= (n < m ? n : m) && ways < 1e9; i++)
        ways *= (double)((n > m ? n : m) + i) / (double)i;
    return 2 / ways;
}

/* What else the machine does only ever slows a process down, often by a step that lasts for seconds:
 * how many processes it hits is chance and says nothing of the program, and where it is half of them,
 * a median is that of either state. A run's speed is that of the fastest tenth of its processes. */
static const double FASTEST = 0.1;

/* Numbers of two runs in order: the rank of each, ties sharing theirs, and whose it is. */
typedef struct ranking {
    double rank[2 * MOST_PROCESSES];
    bool second[2 * MOST_PROCESSES];
    int64_t n[2];
} ranking;

typedef struct labelled {
    double x;
    bool second;
} labelled;

static int by_number(const void *a, const void *b) {
    double x = ((const labelled *)a)->x, y = ((const labelled *)b)->x;
    return (x > y) - (x < y);
}

static void rank_both(ranking *k, list x, list y) {
    labelled both[2 * MOST_PROCESSES];
    int64_t all = x.n + y.n;
    k->n[0] = x.n, k->n[1] = y.n;
    for (int64_t i = 0; i < all; i++)
        both[i] = (labelled){i < x.n ? x.x[i] : y.x[i - x.n], i >= x.n};
    qsort(both, (size_t)all, sizeof *both, by_number);
    for (int64_t i = 0, next; i < all; i = next) {
        for (next = i + 1; next < all && both[next].x == both[i].x; next++);
        for (int64_t e = i; e < next; e++)
            k->rank[e] = (double)(i + next + 1) / 2, k->second[e] = both[e].second;
    }
}

/* How far the fastest tenths of the two lie apart: the difference of their mean ranks. */
static double apart(const ranking *k) {
    int64_t fast[2], seen[2] = {0, 0};
    double sum[2] = {0, 0};
    for (int s = 0; s < 2; s++) fast[s] = (int64_t)ceil(FASTEST * (double)k->n[s]);
    for (int64_t i = 0; seen[0] < fast[0] || seen[1] < fast[1]; i++) {
        int side = k->second[i];
        if (seen[side] < fast[side]) sum[side] += k->rank[i], seen[side]++;
    }
    return fabs(sum[1] / (double)fast[1] - sum[0] / (double)fast[0]);
}

/* The next way to deal the numbers to two runs, in lexical order. False after the last. */
static bool deal_next(ranking *k) {
    int64_t all = k->n[0] + k->n[1], at = all - 2, seconds = k->second[all - 1];
    for (; at >= 0 && (k->second[at] || !k->second[at + 1]); at--) seconds += k->second[at];
    if (at < 0) return false;
    k->second[at] = true;
    for (int64_t i = at + 1; i < all; i++) k->second[i] = i > all - seconds;
    return true;
}

static void deal_at_random(ranking *k, uint64_t stream) {
    int64_t left = k->n[1];
    for (int64_t i = 0, all = k->n[0] + k->n[1]; i < all; i++) {
        k->second[i] = (int64_t)(draw(stream, (uint64_t)i) % (uint64_t)(all - i)) < left;
        left -= k->second[i];
    }
}

/* A rank test: the share of the ways to deal the numbers to two runs that set the fastest tenths of
 * the two as far apart. All ways are counted where they are few; else some are drawn, in every run
 * the same ones. */
static double rank_test(list x, list y) {
    enum { MOST_WAYS = 4000 };
    ranking k, dealt;
    double as_far = 0, ways = 0;
    if (!x.n || !y.n) return NAN;
    rank_both(&k, x, y);
    double seen = apart(&k) - 1e-9;
    dealt = k;
    if (2 / least_p(x.n, y.n) > MOST_WAYS) {
        for (; ways < MOST_WAYS; ways++) {
            deal_at_random(&dealt, mix((uint64_t)ways));
            as_far += apart(&dealt) >= seen;
        }
        return (1 + as_far) / (1 + ways);
    }
    for (int64_t i = 0; i < x.n + y.n; i++) dealt.second[i] = i >= x.n;
    do as_far += apart(&dealt) >= seen, ways++;
    while (deal_next(&dealt));
    return as_far / ways;
}

/* What some processes have measured of one row: all samples, and the medians of the processes, both
 * of them sorted. */
typedef struct samples {
    list all;
    int processes;
    double medians[MOST_PROCESSES];
} samples;

static void *get(int64_t count, size_t size) {
    void *p = calloc((size_t)count + 1, size);
    if (!p) {
        refuse("out of memory");
        exit(EXIT_BAD);
    }
    return p;
}

/* n lists, one of each process, times a factor. */
static samples gather(const list *lists, int n, double factor) {
    samples s = {.processes = n};
    for (int p = 0; p < n; p++) s.all.n += lists[p].n;
    s.all.x = get(s.all.n, sizeof *s.all.x);
    double *own = s.all.x;
    for (int p = 0; p < n; own += lists[p++].n) {
        for (int64_t i = 0; i < lists[p].n; i++) own[i] = factor * lists[p].x[i];
        qsort(own, (size_t)lists[p].n, sizeof *own, by_size);
        s.medians[p] = quantile(own, lists[p].n, 0.5);
    }
    qsort(s.medians, (size_t)n, sizeof *s.medians, by_size);
    qsort(s.all.x, (size_t)s.all.n, sizeof *s.all.x, by_size);
    return s;
}

static void free_samples(samples *s) { free(s->all.x); }

/* The same of as many draws with replacement from sorted numbers, at most MOST_PROCESSES. */
static double quantile_of_draws(list sorted, uint64_t stream) {
    double drawn[MOST_PROCESSES];
    int times[MOST_PROCESSES] = {0}, n = 0;
    for (int64_t i = 0; i < sorted.n; i++) times[draw(stream, (uint64_t)i) % (uint64_t)sorted.n]++;
    for (int64_t i = 0; i < sorted.n; i++)
        while (times[i]-- > 0) drawn[n++] = sorted.x[i];
    return quantile(drawn, n, FASTEST);
}

/* How many times as long y takes as x, and the interval that holds it in 95 of 100 runs, by a
 * bootstrap that is the same in every run. */
static void compare_lists(comparison *c, list x, list y) {
    enum { DRAWS = 2000 };
    double ratios[DRAWS];
    c->old_ms = quantile(x.x, x.n, FASTEST);
    c->now_ms = quantile(y.x, y.n, FASTEST);
    c->ratio = c->now_ms / c->old_ms;
    for (int i = 0; i < DRAWS; i++)
        ratios[i] = quantile_of_draws(y, mix((uint64_t)(2 * i))) /
                    quantile_of_draws(x, mix((uint64_t)(2 * i + 1)));
    qsort(ratios, DRAWS, sizeof *ratios, by_size);
    c->low = quantile(ratios, DRAWS, 0.025), c->high = quantile(ratios, DRAWS, 0.975);
}

/* So many of the samples at most, evenly spread over all of them. */
static list thinned(list all, double room[MOST_PROCESSES]) {
    list few = {room, all.n < MOST_PROCESSES ? all.n : MOST_PROCESSES};
    for (int64_t i = 0; i < few.n; i++)
        room[i] = quantile(all.x, all.n, few.n > 1 ? (double)i / (double)(few.n - 1) : 0.5);
    return few;
}

/* Slower or faster: by a rank test, and by so much that no drift between two runs explains it. The
 * same: the interval has no such change in it; where it has, and nothing is shown, that is unclear.
 * The samples of a process are no independent ones: with enough processes their medians are ranked. */
static const double SIGNIFICANT = 0.01, NOTICEABLE = 1.05;
enum { ENOUGH_PROCESSES = 5, SURE_PROCESSES = 10 }; /* of fewer a slow one hides a change */

static comparison compare_samples(const samples *old, const samples *now) {
    comparison c = {.verdict = "same",
        .processes = old->processes < now->processes ? old->processes : now->processes};
    double room[2][MOST_PROCESSES];
    bool many = c.processes >= ENOUGH_PROCESSES;
    list x = many ? (list){(double *)(uintptr_t)old->medians, old->processes} : old->all;
    list y = many ? (list){(double *)(uintptr_t)now->medians, now->processes} : now->all;
    x = thinned(x, room[0]), y = thinned(y, room[1]);
    compare_lists(&c, x, y);
    c.p = rank_test(x, y);
    c.p95 = quantile(now->all.x, now->all.n, 0.95) / quantile(old->all.x, old->all.n, 0.95);
    c.p99 = quantile(now->all.x, now->all.n, 0.99) / quantile(old->all.x, old->all.n, 0.99);
    if (least_p(x.n, y.n) > SIGNIFICANT) c.verdict = "too few";
    else if (c.p < SIGNIFICANT && c.low > NOTICEABLE) c.verdict = "slower";
    else if (c.p < SIGNIFICANT && c.high < 1 / NOTICEABLE) c.verdict = "faster";
    else if (c.low < 1 / NOTICEABLE || c.high > NOTICEABLE) c.verdict = "unclear";
    return c;
}

/* ---- the comparison */
static bool is_compared(const row *r) { return row_ok(r) && r->samples_ms.n > 0; }

static bool is_same_row(const row *x, const row *y) {
    return !strcmp(x->suite, y->suite) && !strcmp(x->name, y->name) &&
           !strcmp(x->backend, y->backend) && !strcmp(x->dtype, y->dtype) &&
           !strcmp(x->kv_dtype, y->kv_dtype) && !strcmp(x->pass, y->pass) &&
           x->threads == y->threads && x->seed == y->seed;
}

/* The rows of one case and backend that some processes have measured. */
typedef struct measured {
    const row *first;
    list lists[MOST_PROCESSES];
    double peaks[MOST_PROCESSES]; /* GFLOP/s, sampled beside the calls */
    int n;
} measured;

/* A row of the same case and backend that was wrong or failed: what other processes measured of it,
 * which do not verify, is no measurement. NULL: there is none. */
static const row *find_fault(const row *rows, int64_t count, const row *of) {
    for (int64_t i = 0; i < count; i++)
        if ((!strcmp(rows[i].status, "wrong") || !strcmp(rows[i].status, "failed")) &&
            is_same_row(&rows[i], of))
            return &rows[i];
    return NULL;
}

static void find_measured(measured *m, const row *rows, int64_t count, const row *of) {
    for (int64_t i = 0; i < count && m->n < MOST_PROCESSES; i++)
        if (is_compared(&rows[i]) && is_same_row(&rows[i], of)) {
            m->first = m->n ? m->first : &rows[i];
            m->peaks[m->n] = rows[i].gflops / rows[i].peak_fraction;
            m->lists[m->n++] = rows[i].samples_ms;
        }
}

/* How much slower the processor's clock is than when the row was saved, by the peaks sampled beside the
 * two: by their medians, and with enough processes by the fastest too, as calls are compared, so that
 * load beside some of them is no clock; a tenth at most, more is no clock's doing. */
static double slower_clock(measured *now, measured *old) {
    static const double most = 1.1;
    measured *const sides[] = {now, old};
    double middle[2], fast[2];
    int64_t fewest = MOST_PROCESSES;
    for (int i = 0; i < 2; i++) {
        int64_t n = 0; /* a row without a share of the peak says nothing of it */
        for (int64_t k = 0; k < sides[i]->n; k++)
            if (isfinite(sides[i]->peaks[k])) sides[i]->peaks[n++] = sides[i]->peaks[k];
        middle[i] = median(sides[i]->peaks, n); /* sorts them */
        fast[i] = quantile(sides[i]->peaks, n, 1 - FASTEST);
        fewest = n < fewest ? n : fewest;
    }
    double slower = middle[1] / middle[0];
    if (fewest >= SURE_PROCESSES) slower = fmin(slower, fast[1] / fast[0]);
    return slower > 1 ? fmin(slower, most) : 1;
}

/* `now` beside `old` on a clock so much slower. */
static comparison compare_measured(const measured *now, const measured *old, double clock) {
    samples x = gather(old->lists, old->n, clock), y = gather(now->lists, now->n, 1);
    comparison c = compare_samples(&x, &y);
    c.now = now->first, c.old = old->first, c.clock = clock;
    c.old_ms /= clock; /* as it was saved */
    free_samples(&x), free_samples(&y);
    return c;
}

/* Compares rows, and more of them, with those saved; how many are slower. */
static int64_t compare_rows(bench *b, const row *rows, int64_t count, const row *more,
    int64_t more_count, const baseline *old) {
    int64_t slow = 0;
    for (int64_t i = 0; i < count && !interrupted; i++) {
        measured now = {.n = 0}, then = {.n = 0};
        if (!is_compared(&rows[i]) || find_fault(rows, count, &rows[i]) ||
            find_fault(more, more_count, &rows[i]) || find_fault(old->rows, old->count, &rows[i]))
            continue;
        find_measured(&now, rows, count, &rows[i]);
        find_measured(&now, more, more_count, &rows[i]);
        find_measured(&then, old->rows, old->count, &rows[i]);
        if (now.first != &rows[i] || !then.n) /* compared already, or never saved */
            continue;
        comparison c = compare_measured(&now, &then, 1);
        if (!strcmp(c.verdict, "slower")) /* a clock excuses, it makes nothing faster */
            c = compare_measured(&now, &then, slower_clock(&now, &then));
        b->comparisons = grow(b->comparisons, b->comparison_count, sizeof *b->comparisons);
        b->comparisons[b->comparison_count++] = c;
        slow += !strcmp(c.verdict, "slower");
    }
    return slow;
}

/* Among many rows one looks slower by chance: what does is measured again, by processes that are
 * all new, and is slower only where these say so too. How many are; or -1 after one line. */
static int64_t confirm_slower(bench *b, const baseline *old) {
    bench again = *b;
    int64_t slow = 0;
    again.repeats = NULL, again.repeat_count = 0;
    again.comparisons = NULL, again.comparison_count = 0;
    bool good = repeat_runs(&again, processes_of(&b->opt));
    compare_rows(&again, again.repeats, again.repeat_count, NULL, 0, old);
    for (int64_t i = 0; good && i < b->comparison_count; i++) {
        comparison *c = &b->comparisons[i];
        for (int64_t k = 0; k < again.comparison_count && !strcmp(c->verdict, "slower"); k++)
            if (is_same_row(again.comparisons[k].now, c->now) &&
                strcmp(again.comparisons[k].verdict, "slower")) {
                again.comparisons[k].now =
                    c->now; /* all of it, or the verdict is of other numbers */
                *c = again.comparisons[k];
            }
        slow += !strcmp(c->verdict, "slower");
    }
    free(again.comparisons);
    free_rows(again.repeats, again.repeat_count);
    return good ? slow : -1;
}

/* What was measured when `old` was saved and is wrong or failed now is named, one line each; how many
 * are. `missing`: how many have no row now. */
static int64_t name_faults(const row *rows, int64_t count, const baseline *old, int64_t *missing) {
    int64_t faults = 0;
    *missing = 0;
    for (int64_t i = 0; i < old->count; i++) {
        const row *was = &old->rows[i];
        bool seen = !is_compared(was), measured = false;
        for (int64_t k = 0; k < i && !seen; k++) seen = is_same_row(&old->rows[k], was);
        if (seen || find_fault(old->rows, old->count, was)) continue;
        const row *fault = find_fault(rows, count, was);
        for (int64_t k = 0; k < count && !measured; k++)
            measured = is_compared(&rows[k]) && is_same_row(&rows[k], was);
        if (fault)
            fprintf(stderr, "attn_bench: baseline: %s %s %s %s was measured, and is %s now\n",
                was->suite, was->name, was->backend, was->pass, fault->status);
        faults += fault != NULL;
        *missing += !fault && !measured;
    }
    return faults;
}

/* How many rows of this run the saved one has not measured. */
static int64_t count_new(const row *rows, int64_t count, const baseline *old) {
    int64_t more = 0;
    for (int64_t i = 0; i < count; i++) {
        bool seen = !is_compared(&rows[i]);
        for (int64_t k = 0; k < i && !seen; k++) seen = is_same_row(&rows[k], &rows[i]);
        for (int64_t k = 0; k < old->count && !seen; k++)
            seen = is_compared(&old->rows[k]) && is_same_row(&old->rows[k], &rows[i]);
        more += !seen;
    }
    return more;
}

static int refuse_other_rows(const baseline *old) {
    return refuse(
        "--baseline %s: 0 rows compared, none of its rows is one of this run's", old->path);
}

/* Whether something is slower, or wrong by now; EXIT_BAD after one line: nothing was compared. */
static int judge_baseline(bench *b, const row *rows, int64_t count, const baseline *old) {
    int64_t slow = compare_rows(b, rows, count, b->repeats, b->repeat_count, old), missing;
    int64_t faults = name_faults(rows, count, old, &missing);
    if (missing && !interrupted)
        fprintf(stderr, "attn_bench: baseline: %lld of its rows were not measured now\n",
            (long long)missing);
    const int64_t more = count_new(rows, count, old);
    if (more && !interrupted)
        fprintf(stderr, "attn_bench: baseline: %lld rows of this run were not measured in it\n",
            (long long)more);
    if (!b->comparison_count && !interrupted && !faults) return refuse_other_rows(old);
    if (slow && b->writer && !interrupted) /* this is a run, no saved one */
        slow = confirm_slower(b, old);
    if (slow < 0) return EXIT_BAD;
    int64_t unclear = 0;
    int fewest = MOST_PROCESSES;
    for (int64_t i = 0; i < b->comparison_count; i++) {
        const comparison *c = &b->comparisons[i];
        unclear += !strcmp(c->verdict, "unclear");
        fewest = c->processes < fewest ? c->processes : fewest;
    }
    fprintf(stderr, "attn_bench: baseline: %lld rows compared, %lld slower, %lld unclear\n",
        (long long)b->comparison_count, (long long)slow, (long long)unclear);
    if (fewest < ENOUGH_PROCESSES)
        fprintf(stderr,
            "attn_bench: baseline: calls of %d process(es) are compared as if each were one: "
            "--processes %d and more are surer\n",
            fewest, SURE_PROCESSES);
    return slow || faults ? EXIT_WRONG : 0;
}

/* Another processor is not a regression: it is said before anything is measured. */
static int check_machine(const baseline *old, const char *isa, const char *cpu) {
    if (!strcmp(old->cpu, cpu) && !strcmp(old->isa, isa)) return 0;
    return refuse("--baseline %s: mismatch: it was saved on %s, %s; this is %s, %s: nothing is "
                  "compared",
        old->path, old->cpu, old->isa, cpu, isa);
}

/* Nor is a run measured that has no row of the saved one. Which backend "auto" takes, and what rows a
 * call over ranks has, is not known before. */
static int check_rows(const bench *b, const baseline *old) {
    static row r;
    char name[32];
    const char *backend;
    for (int64_t i = 0; i < b->case_count; i++)
        for (int k = 0; (backend = backend_of_case(b, &b->cases[i], k, name)); k++) {
            if (!strcmp(backend, "auto") || b->cases[i].suite->over_ranks) return 0;
            r = new_row(&b->cases[i], backend);
            for (int64_t n = 0; n < old->count; n++)
                if (is_compared(&old->rows[n]) && is_same_row(&old->rows[n], &r)) return 0;
        }
    return refuse_other_rows(old);
}

/* --baseline OLD --saved NEW: two saved runs, nothing is measured. */
static int compare_saved(bench *b) {
    baseline old, now;
    int code = load_baseline("baseline", b->opt.baseline, &old);
    if (code) return code;
    code = load_baseline("saved", b->opt.saved, &now);
    if (!code) code = check_machine(&old, now.isa, now.cpu);
    if (!code) code = judge_baseline(b, now.rows, now.count, &old);
    print_comparisons(document, b);
    free_baseline(&old);
    free_baseline(&now);
    return code;
}

/* ================================================================================= >>flags ==== */
/* of a flag: a path and a name after it fit 4096 */
enum { LONGEST_TEXT = 3000 };
typedef enum flag_kind { TO_TEXT, TO_BOOL, TO_SECONDS, TO_WINDOW, TO_PROCESSES } flag_kind;
static const struct {
    const char *name;
    flag_kind kind;
    size_t offset;
    const char *argument, *help;
} flags[] = {
    {"help", TO_BOOL, offsetof(options, help), "", "this text"},
    {"version", TO_BOOL, offsetof(options, version), "", "the version of attn.h"},
    {"list", TO_BOOL, offsetof(options, list), "", "suites, backends and the cases that would run"},
    {"suite", TO_TEXT, offsetof(options, suites), "NAME,..", "suites to run"},
    {"quick", TO_BOOL, offsetof(options, quick), "", "the short selection of each suite"},
    {"modules", TO_TEXT, offsetof(options, modules), "gemma,gemma_fast", "modules of openpi"},
    {"backend", TO_TEXT, offsetof(options, backends), "NAME,..", "auto or registered backends"},
    {"plugin", TO_TEXT, offsetof(options, plugins), "LIB.so,..",
        "backends of shared objects join every table: see the head of attn_bench.c"},
    {"device", TO_TEXT, offsetof(options, device), "cpu|hip", "cuda is an alias of hip"},
    {"causal", TO_BOOL, offsetof(options, causal), "", "causal mask"},
    {"window", TO_WINDOW, offsetof(options, window), "L,R",
        "keys to the left and right, -1 unlimited"},
    {"backward", TO_BOOL, offsetof(options, backward), "", "also the gradient, and both together"},
    {"projections", TO_BOOL, offsetof(options, projections), "",
        "the whole module: Q, K, V and O projections; needs OpenBLAS"},
    {"min-time", TO_SECONDS, offsetof(options, min_time), "SECONDS",
        "measure each row for so long at least, in no fewer calls"},
    {"tune", TO_BOOL, offsetof(options, tune), "", "time a table of tile sizes; changes nothing"},
    {"ablate", TO_BOOL, offsetof(options, ablate), "",
        "time with each optimization turned off in turn"},
    {"filter", TO_TEXT, offsetof(options, filter), "TEXT", "the cases whose name contains it"},
    {"cold", TO_BOOL, offsetof(options, cold), "", "caches flushed before each timed call"},
    {"wide", TO_BOOL, offsetof(options, wide), "", "the table with every column"},
    {"verify", TO_BOOL, offsetof(options, verify), "",
        "verify every row of every output, however long it takes"},
    {"format", TO_TEXT, offsetof(options, format), "table|csv|json|markdown",
        "of the document on stdout"},
    {"output-dir", TO_TEXT, offsetof(options, output_dir), "DIR",
        "three result files and summary_report.md"},
    {"plot", TO_BOOL, offsetof(options, plot), "",
        "with --output-dir: SVG plots by gnuplot, and their points"},
    {"save-baseline", TO_TEXT, offsetof(options, save_baseline), "FILE", "save this run"},
    {"baseline", TO_TEXT, offsetof(options, baseline), "FILE",
        "compare with a saved run: exit 1 when slower"},
    {"saved", TO_TEXT, offsetof(options, saved), "FILE",
        "with --baseline: compare that saved run, measure nothing"},
    {"processes", TO_PROCESSES, offsetof(options, processes), "N",
        "that measure what is saved or compared, one after the other; default 25"},
    {"input", TO_TEXT, offsetof(options, input), "Q,K,V",
        ".npy files: [B,S,H,D], [S,H,D], with --num-heads [B,S,H*D]"},
    {"mask", TO_TEXT, offsetof(options, mask), "M",
        ".npy file, bool, broadcast to [B, H, Sq, Skv]"},
    {"expect", TO_TEXT, offsetof(options, expect), "O", ".npy file that the output must equal"},
    {"output", TO_TEXT, offsetof(options, output), "O", ".npy file to write"},
    {"footprint", TO_TEXT, offsetof(options, footprint), "CALL", NULL}, /* see from_child */
    {"repeated", TO_BOOL, offsetof(options, repeated), "", NULL},       /* see repeat_run */
};

/* Whether a suite has lines, or lines of a module. */
static bool has_lines(const char *name, bool of_module) {
    for (int i = 0; i < COUNT(lines); i++)
        if (!strcmp(lines[i].suite, name) && (lines[i].module || !of_module)) return true;
    return false;
}

static void print_help(void) {
    fprintf(document,
        "attn_bench - verifies and times attn.h on the cases of five attention benchmark "
        "systems\n\n"
        "  attn_bench [flags]              without --suite: the default selection, or the case "
        "of the shape flags\n"
        "  attn_bench B S H D [flags]      one shape: batch, tokens, heads, head_dim\n\n");
    for (int i = 0; i < COUNT(flags) && flags[i].help; i++)
        fprintf(document, "  --%-14s %-26s %s\n", flags[i].name, flags[i].argument, flags[i].help);
    char text[128];
    for (int a = 0; a < AXES; a++)
        if (axes[a].flag)
            fprintf(document, "  --%-14s %-26s %s\n", axes[a].name,
                axes[a].words && a != DIM        ? axis_words((axis)a, text)
                : a == ITERATIONS || a == WARMUP ? "N"
                                                 : "N,..",
                axes[a].help);
    fprintf(document, "\nsuites:\n");
    for (int s = 0; s < COUNT(suites); s++)
        if (has_lines(suites[s].name, false)) /* the others are of flags */
            fprintf(document, "  %-12s %s\n", suites[s].name, suites[s].help);
}

/* The names of the suites that have lines, or lines of a module. */
static const char *suites_with_lines(char names[256], bool of_module) {
    *names = 0;
    for (int s = 0; s < COUNT(suites); s++)
        if (has_lines(suites[s].name, of_module))
            snprintf(names + strlen(names), 256 - strlen(names), "%s%s", *names ? ", " : "",
                suites[s].name);
    return names;
}

/* The modules of all suites. */
static const char *known_modules(char names[256]) {
    *names = 0;
    for (int i = 0; i < COUNT(lines); i++)
        if (lines[i].module && !strstr(names, lines[i].module))
            snprintf(names + strlen(names), 256 - strlen(names), "%s%s", *names ? ", " : "",
                lines[i].module);
    return names;
}

static bool is_module(const char *name) {
    for (int i = 0; i < COUNT(lines); i++)
        if (lines[i].module && !strcmp(lines[i].module, name)) return true;
    return false;
}

/* "--modules gemma gemma_fast", as openpi writes it: the words that follow are joined, whatever they
 * name. Returns how many there are. */
static int join_modules(options *o, int argc, char **argv) {
    static char joined[LONGEST_TEXT + 1];
    int n = 0;
    snprintf(joined, sizeof joined, "%s", o->modules);
    for (; n < argc && argv[n][0] != '-' && !(argv[n][0] >= '0' && argv[n][0] <= '9'); n++)
        if (strlen(joined) + strlen(argv[n]) + 2 < sizeof joined)
            strcat(strcat(joined, ","), argv[n]);
    o->modules = joined;
    return n;
}

static int set_flag(options *o, int f, const char *value) {
    void *at = (char *)o + flags[f].offset;
    char *end = NULL;
    if (flags[f].kind == TO_BOOL) {
        *(bool *)at = true;
    } else if (flags[f].kind == TO_TEXT) {
        if (!*value) return refuse("--%s: needs %s", flags[f].name, flags[f].argument);
        if (strlen(value) > LONGEST_TEXT)
            return refuse("--%s: longer than %d bytes", flags[f].name, LONGEST_TEXT);
        *(const char **)at = value;
    } else if (flags[f].kind == TO_SECONDS) {
        double x = strtod(value, &end);
        if (end == value || *end || value[strspn(value, "+.0123456789eE-")] ||
            !(x > 0 && x <= 3600))
            return refuse("--%s %s: must be seconds in (0, 3600]", flags[f].name, value);
        *(double *)at = x;
    } else if (flags[f].kind == TO_PROCESSES) {
        long long n = strtoll(value, &end, 10);
        if (end == value || *end || n < 1 || n > MOST_PROCESSES)
            return refuse("--%s %s: must be in [1, %d]", flags[f].name, value, MOST_PROCESSES);
        *(int64_t *)at = n;
    } else {
        long long side[2];
        int used = 0;
        if (sscanf(value, "%lld,%lld%n", &side[0], &side[1], &used) != 2 || value[used] ||
            side[0] < -1 || side[1] < -1 || side[0] > 1 << 24 || side[1] > 1 << 24)
            return refuse("--window %s: must be L,R, each in [-1, 16777216]", value);
        o->window[0] = side[0], o->window[1] = side[1];
        o->window_set = true;
    }
    return 0;
}

/* One flag with or without "=": returns how many arguments it took, 0 after a refusal. */
static int take_flag(options *o, int argc, char **argv) {
    char name[64], limits[128];
    const bool follows = argc > 1 && strncmp(argv[1], "--", 2); /* else the next flag does */
    const char *equals = strchr(argv[0], '='), *value = equals    ? equals + 1
                                                        : follows ? argv[1]
                                                                  : NULL;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(argv[0] + 2, "="), argv[0] + 2);
    if (strcmp(name, "baseline") && strcmp(name, "saved")) o->beside_saved = argv[0];
    for (int f = 0; f < COUNT(flags); f++)
        if (!strcmp(flags[f].name, name)) {
            bool lone = flags[f].kind == TO_BOOL;
            if (lone && equals) return refuse("--%s: takes no value", name), 0;
            if (!lone && !value) return refuse("--%s: needs %s", name, flags[f].argument), 0;
            if (set_flag(o, f, value)) return 0;
            int taken = lone || equals ? 1 : 2;
            if (flags[f].offset == offsetof(options, modules))
                taken += join_modules(o, argc - taken, argv + taken);
            return taken;
        }
    int a = find_axis(name);
    if (a == AXES || !axes[a].flag) return refuse("--%s: unknown flag; --help lists them", name), 0;
    if (!value) return refuse("--%s: needs a value", name), 0;
    if (!parse_values((axis)a, value, &o->user, limits))
        return refuse("--%s %s: %s", name, value, limits), 0;
    return equals ? 1 : 2;
}

static void put_axis(grid *g, axis a, int64_t value) {
    g->count[a] = 1;
    g->value[a][0] = value;
}

/* Four numbers alone are a shape. Returns 0 or EXIT_BAD. */
static int take_shape(options *o, int count, char **numbers) {
    static const axis order[] = {BATCH, SEQ, HEADS, DIM};
    char limits[128];
    if (count && count != 4)
        return refuse("%d arguments without a flag: a shape is four numbers, B S H D", count);
    for (int i = 0; i < count; i++)
        if (o->user.count[order[i]])
            return refuse("--%s: not with a shape of four numbers", axes[order[i]].name);
        else if (!parse_values(order[i], numbers[i], &o->user, limits))
            return refuse("%s %s: %s", axes[order[i]].name, numbers[i], limits);
    o->positional = count > 0;
    return 0;
}

/* The suite that --tune or --ablate runs; NULL: neither is given. */
static const char *study_of(const options *o) {
    return o->tune ? "tune" : o->ablate ? "ablate" : NULL;
}

/* --tune and --ablate vary flash on cases of their own; the shape flags replace their axes. */
static int settle_study(options *o) {
    const char *name = study_of(o);
    const char *not_with = o->ablate && o->tune                    ? "--ablate"
                           : o->suites                             ? "--suite"
                           : o->input                              ? "--input"
                           : o->projections                        ? "--projections"
                           : o->plugins                            ? "--plugin"
                           : o->device && strcmp(o->device, "cpu") ? "--device"
                                                                   : NULL;
    if (!name) return 0;
    if (not_with)
        return refuse(
            "%s: not with --%s, which varies flash on the CPU in cases of its own", not_with, name);
    if (o->backends && strcmp(o->backends, "flash"))
        return refuse("--backend %s: must be flash with --%s", o->backends, name);
    o->backends = "flash";
    return 0;
}

static int settle_modules(const options *o) {
    char name[64], names[256];
    bool has_some = !o->modules;
    for (int s = 0; s < COUNT(suites); s++)
        has_some |=
            o->suites && has_lines(suites[s].name, true) && listed(o->suites, suites[s].name);
    if (!has_some) return refuse("--modules: only with --suite %s", suites_with_lines(names, true));
    for (const char *rest = o->modules; rest;) {
        rest = take_item(rest, name, sizeof name);
        if (!is_module(name))
            return refuse("--modules %s: must be of %s", o->modules, known_modules(names));
    }
    return 0;
}

/* Flags that stand for several axes, and what contradicts what. */
static int settle_flags(options *o) {
    static const axis by_files[] = {
        BATCH, SEQ, KV, KV_HEADS, DIM, V_DIM, EMBED, DTYPE, KV_DTYPE, PAGE};
    const char *needs_input = o->mask ? "mask" : o->expect ? "expect" : o->output ? "output" : NULL;
    if (o->causal) put_axis(&o->user, CAUSAL, 1);
    if (o->cold) put_axis(&o->user, COLD, 1);
    if (o->window_set)
        put_axis(&o->user, LEFT, o->window[0]), put_axis(&o->user, RIGHT, o->window[1]);
    if (o->projections) put_axis(&o->user, PROJECT, 1), put_axis(&o->user, MEASURE, MODULE);
    if (settle_study(o)) return EXIT_BAD;
    if (o->backward && !study_of(o)) { /* these have lines for the backward */
        o->user.count[PASS] = 3;
        for (int i = 0; i < 3; i++) o->user.value[PASS][i] = i;
    }
    if (!o->input && needs_input) return refuse("--%s: only with --input", needs_input);
    if (o->input && (o->suites || o->positional))
        return refuse("--input: not with %s, the files are the case",
            o->suites ? "--suite" : "a shape of four numbers");
    for (int i = 0; o->input && i < COUNT(by_files); i++)
        if (o->user.count[by_files[i]])
            return refuse("--%s: not with --input, the files say it", axes[by_files[i]].name);
    if (o->input && (o->projections || o->backward))
        return refuse("--%s: not with --input", o->projections ? "projections" : "backward");
    for (int a = 0; o->input && a < AXES; a++)
        if (o->user.count[a] > 1) return refuse("--%s: takes one value with --input", axes[a].name);
    if (o->user.count[ITERATIONS] > 1 || o->user.count[WARMUP] > 1)
        return refuse("--%s: takes one value",
            axes[o->user.count[ITERATIONS] > 1 ? ITERATIONS : WARMUP].name);
    if (o->suites && o->positional) return refuse("--suite: not with a shape of four numbers");
    if (o->saved && !o->baseline) return refuse("--saved: needs --baseline");
    if (o->saved && o->beside_saved && !o->help && !o->version)
        return refuse("--saved: not with %s, nothing is measured", o->beside_saved);
    if (o->saved && o->positional) return refuse("--saved: not with a shape, nothing is measured");
    if (o->processes && !o->baseline && !o->save_baseline)
        return refuse(
            "--processes: only where a run is measured for --save-baseline or --baseline");
    if (o->plot && !o->output_dir) return refuse("--plot: needs --output-dir");
    if (o->user.count[EMBED] && o->user.count[DIM])
        return refuse("--embed-dim: not with --head-dim, it follows from --num-heads");
    if (settle_modules(o)) return EXIT_BAD;
    if (o->device && strcmp(o->device, "cpu") && strcmp(o->device, "hip") &&
        strcmp(o->device, "cuda"))
        return refuse("--device %s: must be cpu or hip (cuda is an alias of hip)", o->device);
    return 0;
}

static int parse_flags(int argc, char **argv, options *o) {
    char *numbers[8];
    int count = 0;
    memset(o, 0, sizeof *o);
    o->format = "table";
    for (int i = 1, taken; i < argc; i += taken) {
        taken = 1;
        if (!strcmp(argv[i], "-h")) {
            o->help = true;
        } else if (!strncmp(argv[i], "--", 2)) {
            taken = take_flag(o, argc - i, argv + i);
            if (!taken) return EXIT_BAD;
        } else if (argv[i][0] == '-' && !isdigit((unsigned char)argv[i][1])) {
            return refuse("%s: unknown flag; --help lists them", argv[i]);
        } else if (count++ < COUNT(numbers)) {
            numbers[count - 1] = argv[i];
        }
    }
    int bad = take_shape(o, count, numbers);
    return bad ? bad : settle_flags(o);
}

/* =============================================================================== >>plugins ==== */
/* The plugin that is registering: what it added, and the last that was refused. */
static struct {
    bench *b;
    const char *file; /* NULL: none is */
    int added;
    attn_status status;
    bool odd; /* its name is no word */
    char refused[32];
} plugin_loading;
static const char *plugin_files; /* of all plugins that are loaded; NULL: none is */

/* A name goes into lists, tables and documents: letters, digits and _ . - + only. */
static attn_status add_from_plugin(const attn_backend *backend) {
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-+";
    bench *b = plugin_loading.b;
    const char *name = backend && backend->abi == ATTN_ABI ? backend->name : NULL;
    bool odd = name && name[strspn(name, letters)];
    attn_status s = odd || (name && (!strcmp(name, "hip") || is_mode(name)))
                        ? ATTN_ERR_REGISTER_NAME
                        : attn_register(backend);
    if (!s && b->plugin_count == MOST_BACKENDS) s = ATTN_ERR_REGISTER_FULL;
    if (s) {
        plugin_loading.status = s, plugin_loading.odd = odd;
        snprintf(plugin_loading.refused, sizeof plugin_loading.refused, "%s", name ? name : "");
        return s;
    }
    snprintf(b->plugins[b->plugin_count++], sizeof b->plugins[0], "%s", name);
    plugin_loading.added++;
    return ATTN_OK;
}

/* One shared object: its backends registered; 0 or EXIT_BAD after one line. */
static int load_plugin(bench *b, const char *file) {
    char path[4096];
    attn_status (*start)(attn_status (*add)(const attn_backend *)) = NULL;
    snprintf(path, sizeof path, "%s%s", strchr(file, '/') ? "" : "./", file);
    memset(&plugin_loading, 0, sizeof plugin_loading);
    plugin_loading.file = file;
    void *library = library_open(path);
    if (!library) return refuse("--plugin %s: %s", file, library_error());
    void *symbol = library_symbol(library, "attn_plugin_register");
    if (!symbol) return refuse("--plugin %s: has no attn_plugin_register", file);
    memcpy(&start, &symbol, sizeof start); /* C has no cast from object to function pointer */
    plugin_loading.b = b;
    attn_status s = start(add_from_plugin);
    keep_point();
    s = plugin_loading.status ? plugin_loading.status : s;
    if (s)
        return refuse("--plugin %s: %s%s%s", file, plugin_loading.refused,
            *plugin_loading.refused ? ": " : "",
            plugin_loading.odd ? "a name has letters, digits and _ . - + only"
                               : attn_status_text(s));
    return plugin_loading.added ? 0 : refuse("--plugin %s: registers no backend", file);
}

static int load_plugins(bench *b) {
    char file[LONGEST_TEXT + 1];
    int bad = 0;
    for (const char *rest = b->opt.plugins; rest && !bad;) {
        rest = take_item(rest, file, sizeof file);
        bad = load_plugin(b, file);
        plugin_loading.file = NULL;
    }
    plugin_files = b->opt.plugins;
    return bad;
}

/* ---- from flags to backends and cases */
/* Whether there is a GPU that takes calls: the answer to a small one. */
static void find_gpu(bench *b) {
    problem p;
    attn_plan plan;
    grid g = parse_line("seq-len=64 num-heads=1");
    bench_case c = {.suite = &suites[0]};
    attn_status s = attn_hip_register();
    if (s) {
        snprintf(b->no_gpu, sizeof b->no_gpu, "%s", attn_status_text(s));
        return;
    }
    for (int a = 0; a < AXES; a++) c.v[a] = g.value[a][0];
    char text[128];
    resolve_case(&c, &b->opt.user, text);
    memset(&plan, 0, sizeof plan);
    if (!problem_make(&c, NULL, &p)) return;
    p.d.backend = "hip";
    s = plan_call(&p, FWD, &plan);
    if (s) explain(&plan, "hip", s, b->no_gpu);
    problem_free(&p);
}

static int choose_backends(bench *b) {
    const options *o = &b->opt;
    bool gpu = o->device && strcmp(o->device, "cpu");
    char have[256] = "auto";
    if (o->device && !gpu) {
        if (o->backends && listed(o->backends, "hip"))
            return refuse("--device cpu: not with --backend %s, which has hip", o->backends);
        snprintf(b->no_gpu, sizeof b->no_gpu, "left out by --device cpu");
    }
    if (gpu && *b->no_gpu) return refuse("--device %s: %s", o->device, b->no_gpu);
    if (gpu && o->backends && !listed(o->backends, "hip"))
        return refuse(
            "--device %s: not with --backend %s, which has no hip", o->device, o->backends);
    for (int i = 0; attn_backend_at(i); i++)
        snprintf(have + strlen(have), sizeof have - strlen(have), ", %s", attn_backend_at(i)->name);
    const char *rest = o->backends ? o->backends : gpu ? "hip" : NULL;
    while (rest) {
        char *name = b->backends[b->backend_count];
        if (b->backend_count == MOST_BACKENDS)
            return refuse("--backend: takes at most %d names", MOST_BACKENDS);
        rest = take_item(rest, name, sizeof b->backends[0]);
        if (strcmp(name, "auto") && strcmp(name, "hip") && !is_mode(name) &&
            !attn_backend_find(name))
            return refuse("--backend %s: must be of %s, precision, rank%s", name, have,
                attn_backend_find("hip") ? "" : ", hip");
        int named = 0; /* twice is once */
        while (strcmp(b->backends[named], name)) named++;
        b->backend_count += named == b->backend_count;
    }
    for (int i = b->backend_count - 1; i > 0; i--)
        if (!strcmp(b->backends[i], "standard")) { /* the others are compared with it */
            memmove(b->backends[1], b->backends[0], (size_t)i * sizeof b->backends[0]);
            snprintf(b->backends[0], sizeof b->backends[0], "standard");
        }
    if (b->backend_count == 1 && !strcmp(b->backends[0], "hip") && *b->no_gpu)
        return refuse("--backend hip: %s", b->no_gpu);
    if (o->input && !b->backend_count)
        snprintf(b->backends[b->backend_count++], sizeof b->backends[0], "auto");
    if (o->output && b->backend_count != 1)
        return refuse("--output: takes one --backend, not %d", b->backend_count);
    return 0;
}

/* Where the case stands in the table, or belongs: what it is, but for how long it is measured. */
static int64_t *case_place(const bench *b, const bench_case *c) {
    uint64_t at = (uint64_t)(uintptr_t)c->suite ^ mix((uint64_t)(uintptr_t)c->variant);
    for (int a = 0; a < WARMUP; a++) at = mix(at + (uint64_t)c->v[a]);
    for (;; at++) {
        int64_t *place = &b->case_places[at & (uint64_t)(b->case_room - 1)];
        const bench_case *there = *place ? &b->cases[*place - 1] : NULL;
        if (!there || (there->suite == c->suite && there->variant == c->variant &&
                          !memcmp(there->v, c->v, WARMUP * sizeof *c->v)))
            return place;
    }
}

/* Room for one case more: of the table at most half is taken. False when memory is short. */
static bool make_case_room(bench *b) {
    const int64_t room = b->case_room ? 2 * b->case_room : 64;
    if (2 * (b->case_count + 1) <= b->case_room) return true;
    free(b->case_places);
    b->case_places = calloc((size_t)room, sizeof *b->case_places);
    b->case_room = b->case_places ? room : 0;
    for (int64_t i = 0; i < b->case_count && b->case_places; i++)
        *case_place(b, &b->cases[i]) = i + 1;
    return b->case_places != NULL;
}

static int add_case(bench *b, bench_case *c) {
    char text[128];
    const char *why = resolve_case(c, &b->opt.user, text);
    if (!make_case_room(b)) return refuse("out of memory");
    int64_t *place = case_place(b, c);
    if (*place) return 0; /* two lines may cross, and --threads 2,0 be the same */
    name_case(c);
    if (b->opt.filter && !strstr(c->name, b->opt.filter)) return 0;
    if (why && !b->opt.suites) return refuse("%s", why);
    if (why) { /* other cases of the suite may take the flag */
        if (!b->left_out++) snprintf(b->left_out_why, sizeof b->left_out_why, "%s", why);
        return 0;
    }
    b->cases = grow(b->cases, b->case_count, sizeof *b->cases);
    b->cases[b->case_count++] = *c;
    *place = b->case_count;
    return 0;
}

/* A case as it is or, in a study, with attn.h as it is and then each variant of its group. */
static int add_variants(bench *b, const bench_case *c, const char *group) {
    bench_case varied = *c;
    if (!group) return add_case(b, &varied);
    for (int i = 0; i < COUNT(variants); i++) {
        const variant *x = &variants[i];
        varied.variant = x;
        if ((!strcmp(x->group, group) || !strcmp(x->group, c->suite->name)) &&
            x->when & b->selection && add_case(b, &varied))
            return EXIT_BAD;
    }
    return 0;
}

/* The product of a line's axes, those that the user gave replaced. `group`: of a study, or NULL. */
static int expand(bench *b, const suite *s, const char *line, const char *group) {
    grid g = parse_line(line);
    int at[AXES] = {0}, a;
    bool steps = g.value[MEASURE][0] == GENERATE; /* its queries are the steps, one token each */
    if (b->opt.projections && !is_timing(g.value[MEASURE][0])) return 0; /* modules are timed */
    for (a = 0; a < AXES; a++)
        if (b->opt.user.count[a]) {
            int to = a == SEQ && steps ? KV : a;
            g.count[to] = b->opt.user.count[a];
            memcpy(g.value[to], b->opt.user.value[a], sizeof g.value[to]);
            if (a == DIM) put_axis(&g, EMBED, 0);
        }
    do {
        bench_case c = {.suite = s};
        for (a = 0; a < AXES; a++) c.v[a] = g.value[a][at[a]];
        if (s->brief_warmup && !b->opt.user.count[WARMUP])
            c.v[WARMUP] = min64(c.v[WARMUP], c.v[ITERATIONS]);
        bool too_many = c.v[THREADS] > attn_threads() && !b->opt.user.count[THREADS];
        bool empty = c.v[MEASURE] == GRADIENT && c.v[PASS] == FWD; /* it has no gradients */
        /* bf16 computed as f32 */
        empty |= group && !strcmp(group, "bf16") && c.v[DTYPE] != ATTN_BF16;
        if (!too_many && !empty && add_variants(b, &c, group)) return EXIT_BAD;
        for (a = AXES - 1; a >= 0 && ++at[a] == g.count[a]; a--) at[a] = 0;
    } while (a >= 0);
    return 0;
}

static const suite *find_suite(const char *name) {
    for (int s = 0; s < COUNT(suites); s++)
        if (!strcmp(suites[s].name, name)) return &suites[s];
    return NULL;
}

static bool shape_given(const options *o) {
    static const axis shape[] = {BATCH, SEQ, KV, HEADS, KV_HEADS, DIM, V_DIM, EMBED, CAUSAL, LEFT,
        DTYPE, KV_DTYPE, LAYOUT, PAGE, PASS, PROJECT};
    for (int i = 0; i < COUNT(shape); i++)
        if (o->user.count[shape[i]]) return true;
    return false;
}

/* The default cases are of both passes; shape flags make forward cases, and backward ones
 * too with --backward. */
static int choose_study(bench *b) {
    const options *o = &b->opt;
    const char *name = study_of(o);
    bool backward = o->backward || !shape_given(o);
    b->selection = o->quick ? QUICK : DEFAULT;
    for (int i = 0; i < COUNT(studies); i++)
        if (!strcmp(studies[i].suite, name) && studies[i].when & b->selection &&
            (backward || !strstr(studies[i].axes, "pass=bwd")) &&
            expand(b, find_suite(name), studies[i].axes, studies[i].group))
            return EXIT_BAD;
    return 0;
}

static int choose_cases(bench *b) {
    const options *o = &b->opt;
    char name[64], names[256];
    if (study_of(o)) return choose_study(b);
    if (!o->suites && shape_given(o)) {
        b->selection = o->quick ? QUICK : WHOLE;
        return expand(b, find_suite("shape"), "", NULL);
    }
    b->selection = o->quick ? QUICK : o->suites ? WHOLE : DEFAULT;
    for (const char *rest = o->suites ? o->suites : suites[0].name; rest;) {
        rest = take_item(rest, name, sizeof name);
        if (!has_lines(name, false))
            return refuse("--suite %s: must be of %s", name, suites_with_lines(names, false));
        for (int i = 0; i < COUNT(lines); i++)
            if (!strcmp(lines[i].suite, name) && lines[i].when & b->selection &&
                (!o->modules || !has_lines(name, true) ||
                    (lines[i].module && listed(o->modules, lines[i].module))) &&
                expand(b, find_suite(name), lines[i].axes, NULL))
                return EXIT_BAD;
    }
    return 0;
}

/* ---- from files to a case */
/* The logical [B, S, H, D] of a file. Three dimensions are one sequence, [S, H, D]; with
 * --num-heads they are [B, S, H * D]: `heads` of them. Returns whether the shape can be read so. */
static bool logical_shape(const npy *a, int64_t heads, int64_t layout, int64_t shape[4]) {
    const int64_t *s = a->dims == 4 ? a->shape + 1 : a->shape;
    int64_t batch = a->dims == 4 ? a->shape[0] : 1, tokens = s[layout ? 1 : 0],
            own_heads = s[layout ? 0 : 1];
    int64_t dim = s[2];
    if (a->dims == 3 && heads) batch = s[0], tokens = s[1], own_heads = heads, dim = s[2] / heads;
    shape[0] = batch, shape[1] = tokens, shape[2] = own_heads, shape[3] = dim;
    return batch * tokens * own_heads * dim == a->count && a->count > 0;
}

static int check_shape(const char *name, const npy *a, const npy *q) {
    if (a->dims < 3)
        return refuse("--input: %s has %d dimensions, must have 3 or 4", name, a->dims);
    if (a->dtype != ATTN_F32 && a->dtype != ATTN_F16)
        return refuse("--input: %s must be float32 or float16", name);
    if (a->dims != q->dims || a->dtype != q->dtype)
        return refuse("--input: %s differs from q in type or number of dimensions", name);
    return 0;
}

static int shape_from_files(bench *b, bench_case *c) {
    const npy *q = &b->files->q, *k = &b->files->k, *v = &b->files->v;
    int64_t *x = c->v, heads = b->opt.user.count[HEADS] ? b->opt.user.value[HEADS][0] : 0;
    int64_t qs[4], ks[4], vs[4], joined = q->dims == 3 ? heads : 0;
    if (check_shape("q", q, q) || check_shape("k", k, q) || check_shape("v", v, q)) return EXIT_BAD;
    if (joined && x[LAYOUT])
        return refuse("--layout bhsd: not with --num-heads and files of 3 dimensions");
    if (!logical_shape(q, joined, x[LAYOUT], qs))
        return refuse("--input: q is empty, or its width is not a multiple of --num-heads");
    if (!logical_shape(k, joined ? k->shape[2] / qs[3] : 0, x[LAYOUT], ks) ||
        !logical_shape(v, joined ? ks[2] : 0, x[LAYOUT], vs) || qs[3] != ks[3] || qs[0] != ks[0] ||
        memcmp(ks, vs, 3 * sizeof *ks))
        return refuse("--input: the shapes of q, k and v do not match, or one is empty");
    if (heads && heads != qs[2])
        return refuse(
            "--num-heads %lld: the files have %lld heads", (long long)heads, (long long)qs[2]);
    if (qs[2] % ks[2])
        return refuse("--input: %lld heads of q are not a multiple of the %lld heads of k",
            (long long)qs[2], (long long)ks[2]);
    x[BATCH] = qs[0], x[SEQ] = qs[1], x[HEADS] = qs[2], x[DIM] = qs[3];
    x[KV] = ks[1], x[KV_HEADS] = ks[2], x[V_DIM] = vs[3];
    x[DTYPE] = x[KV_DTYPE] = q->dtype;
    x[DATA] = FROM_FILE;
    b->joined = joined != 0;
    return 0;
}

/* A last dimension of 1 is written out: keys lie side by side in a mask. False when memory is short. */
static bool widen_mask(npy *m, int64_t keys) {
    if (m->shape[m->dims - 1] == keys) return true;
    const char *from = m->data;
    char *to = m->count < INT64_MAX / keys ? malloc((size_t)(m->count * keys)) : NULL;
    if (!to) return false;
    for (int64_t i = 0; i < m->count; i++) memset(to + i * keys, from[i], (size_t)keys);
    free(m->data);
    m->data = to, m->count *= keys, m->shape[m->dims - 1] = keys;
    return true;
}

static int check_mask_and_expect(bench *b, bench_case *c) {
    npy *m = &b->files->mask;
    const npy *e = &b->files->expect, *q = &b->files->q;
    int64_t *x = c->v, full[] = {x[BATCH], x[HEADS], x[SEQ], x[KV]};
    int64_t last = b->joined ? x[HEADS] * x[V_DIM] : x[V_DIM];
    if (b->files->has_mask) {
        if (m->dtype != ATTN_BOOL || m->dims < 2)
            return refuse("--mask: must be bool or uint8, of 2 to 4 dimensions");
        for (int i = 0; i < m->dims; i++)
            if (m->shape[i] != full[4 - m->dims + i] && m->shape[i] != 1)
                return refuse("--mask: does not broadcast to [%lld, %lld, %lld, %lld]",
                    (long long)full[0], (long long)full[1], (long long)full[2], (long long)full[3]);
        if (!widen_mask(m, x[KV])) return refuse("--mask: does not fit in memory");
        x[MASK] = FILE_MASK, c->mask_bytes = (double)m->count;
    }
    if (b->files->has_expect &&
        (e->dtype == ATTN_BOOL || e->dims != q->dims || e->shape[q->dims - 1] != last ||
            memcmp(e->shape, q->shape, (size_t)(q->dims - 1) * sizeof *e->shape)))
        return refuse("--expect: is not shaped as the output");
    return 0;
}

static int load_files(bench *b) {
    static files in;
    const options *o = &b->opt;
    npy *to[] = {&in.q, &in.k, &in.v};
    const char *rest = o->input;
    b->files = &in;
    for (int i = 0; i < 3; i++) {
        *in.path[i] = 0;
        if (rest) rest = take_item(rest, in.path[i], sizeof in.path[i]);
        if (!*in.path[i]) return refuse("--input %s: must be three files, Q,K,V", o->input);
    }
    if (rest) return refuse("--input %s: must be three files, Q,K,V", o->input);
    for (int i = 0; i < 3; i++)
        if (read_npy(in.path[i], to[i])) return EXIT_BAD;
    in.has_mask = o->mask != NULL;
    in.has_expect = o->expect != NULL;
    if ((o->mask && read_npy(o->mask, &in.mask)) || (o->expect && read_npy(o->expect, &in.expect)))
        return EXIT_BAD;
    grid g = parse_line("");
    bench_case c = {.suite = find_suite("shape")};
    for (int a = 0; a < AXES; a++)
        c.v[a] = b->opt.user.count[a] ? b->opt.user.value[a][0] : g.value[a][0];
    b->selection = WHOLE;
    if (shape_from_files(b, &c) || check_mask_and_expect(b, &c)) return EXIT_BAD;
    return add_case(b, &c);
}

static void free_files(bench *b) {
    if (b->files)
        free(b->files->q.data), free(b->files->k.data), free(b->files->v.data),
            free(b->files->mask.data), free(b->files->expect.data);
}

/* ================================================================================== >>main ==== */
static int print_list(const bench *b) {
    char name[32];
    const char *backend;
    for (int i = 0; attn_backend_at(i); i++)
        fprintf(document, "backend %s\n", attn_backend_at(i)->name);
    if (*b->no_gpu) fprintf(document, "backend hip: %s\n", b->no_gpu);
    for (int s = 0; s < COUNT(suites); s++)
        fprintf(document, "suite %s: %s\n", suites[s].name, suites[s].help);
    for (int64_t i = 0; i < b->case_count; i++) {
        const bench_case *c = &b->cases[i];
        row r = new_row(c, "");
        fprintf(document, "case %s: %s, %s, kv %s, %s, %d threads:", c->suite->name, c->name,
            r.dtype, r.kv_dtype, r.pass, (int)c->v[THREADS]);
        for (int k = 0; (backend = backend_of_case(b, c, k, name)); k++)
            fprintf(document, " %s", backend);
        fprintf(document, "\n");
    }
    return 0;
}

/* Shapes of which no backend chosen can hold any are bad input, before anything runs. */
static int refuse_what_cannot_fit(bench *b) {
    char name[32];
    const char *backend, *why = NULL;
    static row r;
    for (int64_t i = 0; i < b->case_count; i++)
        for (int k = 0; (backend = backend_of_case(b, &b->cases[i], k, name)); k++) {
            r = new_row(&b->cases[i], backend);
            running = &r;
            bool fits = plan_row(&b->cases[i], backend, false, &r) || strcmp(r.status, "refused");
            running = NULL;
            if (fits) return 0;
            why = r.note;
        }
    return why ? refuse("--batch-size %lld --seq-len %lld --num-heads %lld --head-dim %lld, %s: %s",
                     (long long)r.batch, (long long)r.q_len, (long long)r.heads,
                     (long long)r.head_dim, r.backend, why)
               : 0;
}

static void count_rows(bench *b) {
    char name[32];
    for (int64_t i = 0; i < b->case_count; i++)
        for (int k = 0; backend_of_case(b, &b->cases[i], k, name); k++) b->row_total++;
}

/* The machine's rates are the best of 12 short runs, of fewer where few calls are asked for. */
static void set_probes(const bench *b) {
    const int64_t most = 12, least = 3, asked = b->opt.user.value[ITERATIONS][0];
    if (!b->opt.user.count[ITERATIONS]) return;
    attn__probe_runs = (int)(asked > most ? most : asked < least ? least : asked);
}

static void measure_machine(bench *b) {
    b->fma_peak = best_peak(ATTN_F32, 0);
    b->dot_peak = best_peak(ATTN_BF16, 0);
    b->bandwidth = attn_bandwidth_gbytes((size_t)64 << 20, 0);
    if (!(b->bandwidth > 0)) b->bandwidth = NAN; /* no memory for it */
}

static bench *writing; /* whose document is begun; NULL: none */

/* A document is ended whatever happens, once. */
static void end_document(void) {
    bench *b = writing;
    writing = NULL;
    keep_point();
    if (b) b->writer->end(document, b), fflush(document);
}

static void say(const char *text) {
    if (write(STDERR_FILENO, text, strlen(text)) < 0) return; /* nobody to tell */
}

/* Says by whom the program ends, with what a signal handler may call. */
static void say_end(const char *how) {
    const char *const parts[] = {running ? running->suite : "", running ? running->name : "",
        running ? running->backend : ""};
    say("attn_bench: ");
    if (plugin_loading.file) say("--plugin "), say(plugin_loading.file), say(": ");
    for (int i = 0; running && i < COUNT(parts); i++) say(parts[i]), say(i < 2 ? " " : ": ");
    if (planning && plugin_files) say("beside --plugin "), say(plugin_files), say(": ");
    if (planning) say("when the backends were asked for a plan: ");
    say(how);
    say(", and nothing more is measured\n");
}

/* The backend of the row in progress did it. The rows before it are not lost: their document is ended,
 * should the crash have left that possible. */
static void on_crash(int number) {
    say_end(number == SIGSEGV   ? "it crashed, SIGSEGV"
            : number == SIGABRT ? "it crashed, SIGABRT"
            : number == SIGFPE  ? "it crashed, SIGFPE"
            : number == SIGILL  ? "it crashed, SIGILL"
                                : "it crashed, SIGBUS");
    interrupted = number;
    die_within(5);
    end_document();
    _exit(EXIT_BAD);
}

/* exit() that is not called by this program is an error of who does. */
static bool ended;
static void on_exit_of_others(void) {
    if (ended) return;
    say_end("it ended the program");
    interrupted = SIGTERM;
    end_document();
    _exit(EXIT_BAD);
}

static void run_cases(bench *b) {
    set_probes(b);
    if (!b->opt.repeated) measure_machine(b);
    writing = b;
    b->writer->begin(document, b);
    if (fflush(document)) b->broken = errno;
    for (int64_t i = 0; i < b->case_count && go_on(b); i++) run_any_case(b, i);
    clear_progress();
    derive_series(b);
    if (b->opt.tune) print_fastest(b);
}

/* Whether nothing was measured, nor found wrong. */
static bool nothing_measured(const bench *b) {
    for (int64_t i = 0; i < b->row_count; i++)
        if (row_ok(&b->rows[i]) || !strcmp(b->rows[i].status, "wrong") ||
            !strcmp(b->rows[i].status, "model") || !strcmp(b->rows[i].status, "failed"))
            return false;
    return true;
}
/* Every backend declined every case. */
static bool nothing_ran(const bench *b) { return !interrupted && nothing_measured(b); }

/* Writes everything asked for; the exit code. */
static int deliver(bench *b, const baseline *old) {
    int bad = 0;
    int compared = old->count ? judge_baseline(b, b->rows, b->row_count, old) : 0;
    end_document();
    if (b->opt.repeated && !interrupted) fputs(BASELINE_END, document);
    if (old->count && !strcmp(b->writer->name, "csv")) print_comparisons(stderr, b);
    if (!strcmp(b->writer->name, "csv") && !b->opt.repeated) print_missed(stderr, b);
    if (fflush(document) || ferror(document) || b->broken)
        bad = refuse("stdout: %s", strerror(b->broken ? b->broken : errno));
    if (b->opt.output_dir && nothing_measured(b))
        fprintf(stderr, "attn_bench: nothing was measured: no reports are written to %s\n",
            b->opt.output_dir);
    else if (b->opt.output_dir) {
        int reports_bad = write_reports(b, b->opt.output_dir);
        bad = bad ? bad : reports_bad;
    }
    const char *save = b->opt.save_baseline;
    if (save && interrupted) fputs("attn_bench: interrupted: no baseline is saved\n", stderr);
    else if (save && compared && is_same_file(save, b->opt.baseline)) /* or twice the same passes */
        fprintf(stderr,
            "attn_bench: --save-baseline %s: is the baseline, which this run does not reach: it is kept\n",
            save);
    else if (save && !bad && !nothing_ran(b)) bad = save_baseline(b, save);
    bad = bad ? bad : b->file_code;
    bad = bad || compared != EXIT_BAD ? bad : compared;
    if (!bad && nothing_ran(b))
        bad = refuse("nothing was measured: no backend takes any of these cases, or would take "
                     "too long: see what the rows say");
    bool reached = judge_suites(b) != NOT_REACHED;
    return bad                                    ? bad
           : interrupted                          ? EXIT_INTERRUPTED
           : compared || any_wrong(b) || !reached ? EXIT_WRONG
                                                  : 0;
}

static int overwrites_input(const bench *b, const char *flag, const char *path) {
    const files *in = b->files;
    for (int i = 0; in && i < 5; i++)
        if (is_same_file(path, i < 3 ? in->path[i] : i < 4 ? b->opt.mask : b->opt.expect))
            return refuse("--%s %s: is a file that is read, too", flag, path);
    return 0;
}

static int prepare(bench *b, baseline *old) {
    static const char *const gnuplot[] = {"gnuplot", "--version", NULL};
    const options *o = &b->opt;
    for (int i = 0; i < COUNT(writers); i++)
        if (!strcmp(writers[i].name, o->format)) b->writer = &writers[i];
    if (!b->writer)
        return refuse("--format %s: must be one of table, csv, json, markdown", o->format);
    if (choose_backends(b) || (o->input ? load_files(b) : choose_cases(b))) return EXIT_BAD;
    if (b->left_out && !b->case_count) return refuse("%s", b->left_out_why);
    if (b->left_out)
        fprintf(stderr, "attn_bench: %d cases are left out: %s\n", b->left_out, b->left_out_why);
    for (int i = 0; o->backends && !o->repeated && i < b->plugin_count; i++)
        if (!listed(o->backends, b->plugins[i]))
            fprintf(stderr, "attn_bench: %s of --plugin is left out: --backend does not name it\n",
                b->plugins[i]);
    bool policy = !b->case_count;
    for (int64_t i = 0; i < b->case_count; i++) policy |= b->cases[i].v[POLICY] != EXACT;
    for (int i = 0; i < b->backend_count && !policy; i++)
        if (is_mode(b->backends[i]))
            return refuse("--backend %s: only in cases with a policy, which --suite adaattn has",
                b->backends[i]);
    if (!b->case_count)
        return o->filter ? refuse("--filter %s: no case has it in its name", o->filter)
                         : refuse("no case is chosen");
    if (o->list) return 0;
    char cpu[192];
    if ((o->baseline && (load_baseline("baseline", o->baseline, old) ||
                            check_machine(old, attn_isa(), cpu_name(cpu)) || check_rows(b, old))) ||
        ((!o->suites || shape_given(o)) && refuse_what_cannot_fit(b)))
        return EXIT_BAD;
    if (o->plot && !run_program(gnuplot, -1, -1)) return refuse("--plot: gnuplot is not installed");
    count_rows(b);
    if (o->output && o->save_baseline &&
        (!strcmp(o->output, o->save_baseline) || is_same_file(o->output, o->save_baseline)))
        return refuse("--output %s: is the file of --save-baseline, too", o->output);
    if (overwrites_input(b, "output", o->output) ||
        overwrites_input(b, "save-baseline", o->save_baseline))
        return EXIT_BAD;
    return prepare_files(b);
}

static int attn_bench(int argc, char **argv) {
    static bench b;
    baseline old = {0};
    b.argc = argc, b.argv = argv;
    time_t now = time(NULL);
    int code = parse_flags(argc, argv, &b.opt);
    if (code) return code;
    if (b.opt.repeated) { /* rows on stdout for another process, no more */
        b.opt.format = "csv", b.opt.plot = false;
        b.opt.baseline = b.opt.save_baseline = b.opt.output_dir = b.opt.output = NULL;
    }
    if (b.opt.help || b.opt.version) {
        if (b.opt.help) print_help();
        else
            fprintf(document, "attn_bench %d.%d.%d\n", ATTN_VERSION / 10000,
                ATTN_VERSION / 100 % 100, ATTN_VERSION % 100);
        return fflush(document) || ferror(document) ? refuse("stdout: %s", strerror(errno)) : 0;
    }
    /* a process of one call has no rows to save: signals end it at once */
    if (one_process() && !b.opt.footprint) catch_signals(on_crash);
    code = load_plugins(&b);
    if (!code && b.opt.footprint) code = print_footprint(b.opt.footprint);
    if (code || b.opt.footprint) return code;
    if (b.opt.saved) {
        code = compare_saved(&b);
        free(b.comparisons);
        return fflush(document) || ferror(document) ? refuse("stdout: %s", strerror(errno)) : code;
    }
#ifdef ATTN_MPI
    const char *fault = fault_of_ranks(&b.opt);
    if (fault) return refuse("%s", fault);
    if (world.rank) b.opt.output_dir = b.opt.output = NULL; /* rank 0 writes */
#endif
    find_gpu(&b);
    strftime(b.date, sizeof b.date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
#ifdef SIGXFSZ
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is one of the file */
#endif
    code = prepare(&b, &old);
    if (!code && b.opt.list) code = print_list(&b);
    else if (!code) {
        run_cases(&b);
        if (repeat_runs(&b, processes_of(&b.opt) - 1)) code = deliver(&b, &old);
        else {
            code = EXIT_BAD;
            end_document();
        }
    }
    if (!code && (fflush(document) || ferror(document)))
        code = refuse("stdout: %s", strerror(errno));
    free_files(&b);
    free_baseline(&old);
    free(b.comparisons);
    free_rows(b.rows, b.row_count);
    free_rows(b.repeats, b.repeat_count);
    free(b.cases);
    free(b.case_places);
    attn_shutdown();
    return code;
}

int main(int argc, char **argv) {
#ifdef ATTN_MPI
    int given;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &given);
    MPI_Comm_rank(MPI_COMM_WORLD, &world.rank), MPI_Comm_size(MPI_COMM_WORLD, &world.count);
    if (world.rank && (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr)))
        MPI_Abort(MPI_COMM_WORLD, EXIT_BAD);
#endif
    const bool heard = open_standard();
    if (heard) open_document();
    atexit(on_exit_of_others);
    const int code = heard ? attn_bench(argc, argv) : refuse("stdout: %s", strerror(EBADF));
    ended = true;
#ifdef ATTN_MPI
    MPI_Finalize();
#endif
    return code;
}
