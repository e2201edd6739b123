/* Calls of the system that fail, or a signal that comes, exactly at the N-th: for LD_PRELOAD.

   faults_arm(kind, at, for_good, error, number, log) is called in the process that is to suffer:
     kind      1: calls that change files; 2: calls that read them
     at        which call, counted from 1; 0 only counts
     for_good  whether all calls that take space fail from then on, as on a full disk
     error     errno of the failure; 0 for none
     number    a signal to send to this process after the call; 0 for none
     log       a descriptor to which each counted call is written */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { NOTHING, FAIL, TELL };
static long first, counted;
static int kind, lasting, failure, sent, told = -1;

void faults_arm(int what, long at, int for_good, int error, int number, int log) {
    kind = what; first = at; counted = 0; lasting = for_good; failure = error; sent = number;
    told = log;
}

static int due(int what, int takes_space, const char *name) {
    if (what != kind) return NOTHING;
    long n = __sync_add_and_fetch(&counted, 1);
    if (told >= 0) dprintf(told, "%ld %s\n", n, name);
    if (first == 0 || n < first || (n > first && !(lasting && takes_space))) return NOTHING;
    if (n > first || !sent) return failure && (n == first || lasting) ? FAIL : NOTHING;
    return TELL;
}

#define GENUINE(name) __typeof__(&name) genuine = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define AROUND(what, space, name, ...)                                                             \
    GENUINE(name);                                                                                 \
    int fate = due(what, space, #name);                                                            \
    if (fate == FAIL) { errno = failure; return -1; }                                              \
    __typeof__(genuine(__VA_ARGS__)) found = genuine(__VA_ARGS__);                                 \
    if (fate == TELL) { int kept = errno; kill(getpid(), sent); errno = kept; }                    \
    return found

#define OPENING(name, signature, ...)                                                              \
    int name signature {                                                                           \
        va_list more; va_start(more, flags); mode_t mode = va_arg(more, mode_t); va_end(more);     \
        int writes = (flags & (O_WRONLY | O_RDWR | O_CREAT)) != 0;                                 \
        AROUND(writes ? 1 : 2, writes, name, __VA_ARGS__);                                         \
    }
OPENING(open, (const char *path, int flags, ...), path, flags, mode)
OPENING(open64, (const char *path, int flags, ...), path, flags, mode)
OPENING(openat, (int at, const char *path, int flags, ...), at, path, flags, mode)
OPENING(openat64, (int at, const char *path, int flags, ...), at, path, flags, mode)

#define CHANGE(space, type, name, signature, ...)                                                  \
    type name signature { AROUND(1, space, name, __VA_ARGS__); }
#define LOOK(type, name, signature, ...) type name signature { AROUND(2, 0, name, __VA_ARGS__); }

CHANGE(1, ssize_t, pwrite, (int f, const void *d, size_t n, off_t o), f, d, n, o)
CHANGE(1, ssize_t, pwrite64, (int f, const void *d, size_t n, off64_t o), f, d, n, o)
CHANGE(1, ssize_t, writev, (int f, const struct iovec *v, int n), f, v, n)
CHANGE(1, int, fsync, (int f), f)
CHANGE(1, int, link, (const char *a, const char *b), a, b)
CHANGE(1, int, linkat, (int f, const char *a, int g, const char *b, int o), f, a, g, b, o)
CHANGE(0, int, rename, (const char *a, const char *b), a, b)
CHANGE(0, int, renameat, (int f, const char *a, int g, const char *b), f, a, g, b)
CHANGE(0, int, unlink, (const char *a), a)
CHANGE(0, int, unlinkat, (int f, const char *a, int o), f, a, o)
CHANGE(0, int, rmdir, (const char *a), a)
CHANGE(1, int, mkdir, (const char *a, mode_t m), a, m)
CHANGE(1, int, ftruncate, (int f, off_t n), f, n)
CHANGE(1, int, ftruncate64, (int f, off64_t n), f, n)
CHANGE(0, int, fchmod, (int f, mode_t m), f, m)
CHANGE(0, int, chmod, (const char *a, mode_t m), a, m)
CHANGE(0, int, flock, (int f, int o), f, o)
LOOK(ssize_t, pread, (int f, void *d, size_t n, off_t o), f, d, n, o)
LOOK(ssize_t, pread64, (int f, void *d, size_t n, off64_t o), f, d, n, o)
LOOK(int, fstat, (int f, struct stat *s), f, s)
LOOK(int, fstat64, (int f, struct stat64 *s), f, s)

/* What goes to the streams is another test's. */
ssize_t write(int f, const void *d, size_t n) { AROUND(f <= 2 ? -1 : 1, 1, write, f, d, n); }

/* Pipes are the libraries' own affair. */
ssize_t read(int f, void *d, size_t n) {
    struct stat s;
    int is_file = syscall(SYS_fstat, f, &s) == 0 && S_ISREG(s.st_mode);
    AROUND(is_file ? 2 : -1, 0, read, f, d, n);
}

/* A close that fails has closed all the same. */
int close(int f) {
    GENUINE(close);
    int fate = f <= 2 ? NOTHING : due(1, 0, "close");
    int found = genuine(f);
    if (fate == FAIL) { errno = failure; return -1; }
    if (fate == TELL) kill(getpid(), sent);
    return found;
}

int posix_fallocate(int f, off_t o, off_t n) {
    GENUINE(posix_fallocate);
    int fate = due(1, 1, "posix_fallocate");
    if (fate == FAIL) return failure;
    int found = genuine(f, o, n);
    if (fate == TELL) kill(getpid(), sent);
    return found;
}
