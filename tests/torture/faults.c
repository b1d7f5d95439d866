/* Counts what a process changes in one folder, and lets one of these operations go wrong.

   Loaded by LD_PRELOAD. The library does nothing until `arm` is called, in a child of the process
   that loaded it. An operation is a call of libc that changes a file or a folder below `folder`;
   the kernel's own buffers, and files elsewhere, are left alone. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { NOTHING, KILL, STOP, FAIL_ONCE, FAIL_ON, CLOCK };

static char folder[PATH_MAX];
static int action, failure, journal = -1;
static long place, seen;
static time_t step, offset; /* seconds that the clock will be, and is, set forward */

#define REAL(name) ((__typeof__(&name))real(#name))
static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

/* Begins to count. `at` is the operation, from 1, at which `what` happens; `number` is the errno
   of a failure; each operation becomes a line of the file `log`, unless that is empty. */
void arm(const char *where, int what, long at, int number, long begin, long change,
         const char *log) {
    snprintf(folder, sizeof folder, "%s", where);
    failure = number, place = at, seen = 0, offset = begin, step = change;
    journal = *log ? REAL(open64)(log, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
    action = what;
}

/* Whether a path, relative to an open folder, lies below `folder`; `out` becomes absolute. */
static int below(int at, const char *path, char *out) {
    char link[64];
    ssize_t size = 0;
    if (!*folder || !path) return 0;
    if (*path != '/') {
        snprintf(link, sizeof link, at == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", at);
        size = readlink(link, out, PATH_MAX - 2);
        if (size < 0) return 0;
        if (*path) out[size++] = '/';
    }
    snprintf(out + size, PATH_MAX - size, "%s", path);
    size_t length = strlen(folder);
    return !strncmp(out, folder, length) && (out[length] == '/' || !out[length]);
}

/* Counts an operation. Returns whether it must fail, with errno set. `needs` says whether it needs
   space on the disk; `torn` that the caller writes half of the data before a kill. */
static int strikes(const char *name, const char *path, int needs, int torn) {
    int before = errno;
    long n = __atomic_add_fetch(&seen, 1, __ATOMIC_SEQ_CST);
    if (journal >= 0) dprintf(journal, "%s\t%d\t%s\n", name, needs, path);
    if (n == place && action == KILL && !torn) kill(getpid(), SIGKILL);
    if (n == place && action == STOP) raise(SIGSTOP);
    if (n == place && action == CLOCK) offset += step;
    errno = before;
    if (!(n == place && (action == FAIL_ONCE || action == KILL)) &&
        !(n >= place && action == FAIL_ON)) return 0;
    if (action != KILL && failure == ENOSPC && !needs) return 0;
    errno = failure;
    return 1;
}

#define STRIKES(name, at, path, needs) \
    (below(at, path, absolute) && strikes(name, absolute, needs, 0))
#define CHANGES(flags) (((flags) & O_ACCMODE) != O_RDONLY || ((flags) & (O_CREAT | O_TRUNC)))

#define OPEN(name, parameters, at, arguments) \
    int name parameters { \
        char absolute[PATH_MAX]; \
        mode_t mode = 0; \
        if (flags & (O_CREAT | __O_TMPFILE)) { \
            va_list rest; \
            va_start(rest, flags), mode = va_arg(rest, mode_t), va_end(rest); \
        } \
        if (CHANGES(flags) && STRIKES("open", at, path, !!(flags & O_CREAT))) return -1; \
        return REAL(name) arguments; \
    }
OPEN(open, (const char *path, int flags, ...), AT_FDCWD, (path, flags, mode))
OPEN(open64, (const char *path, int flags, ...), AT_FDCWD, (path, flags, mode))
OPEN(openat, (int at, const char *path, int flags, ...), at, (at, path, flags, mode))
OPEN(openat64, (int at, const char *path, int flags, ...), at, (at, path, flags, mode))

#define FOPEN(name) \
    FILE *name(const char *path, const char *mode) { \
        char absolute[PATH_MAX]; \
        if (*mode != 'r' && STRIKES("open", AT_FDCWD, path, 1)) return NULL; \
        return REAL(name)(path, mode); \
    }
FOPEN(fopen)
FOPEN(fopen64)

#define CALL(type, name, parameters, at, path, needs, arguments) \
    type name parameters { \
        char absolute[PATH_MAX]; \
        if (STRIKES(#name, at, path, needs)) return -1; \
        return REAL(name) arguments; \
    }
CALL(int, creat, (const char *p, mode_t m), AT_FDCWD, p, 1, (p, m))
CALL(int, mkdir, (const char *p, mode_t m), AT_FDCWD, p, 1, (p, m))
CALL(int, mkdirat, (int at, const char *p, mode_t m), at, p, 1, (at, p, m))
CALL(int, rmdir, (const char *p), AT_FDCWD, p, 0, (p))
CALL(int, unlink, (const char *p), AT_FDCWD, p, 0, (p))
CALL(int, unlinkat, (int at, const char *p, int f), at, p, 0, (at, p, f))
CALL(int, remove, (const char *p), AT_FDCWD, p, 0, (p))
CALL(int, rename, (const char *old, const char *new), AT_FDCWD, new, 0, (old, new))
CALL(int, renameat, (int f, const char *o, int t, const char *n), t, n, 0, (f, o, t, n))
CALL(int, link, (const char *old, const char *new), AT_FDCWD, new, 1, (old, new))
CALL(int, symlink, (const char *old, const char *new), AT_FDCWD, new, 1, (old, new))
CALL(int, truncate, (const char *p, off_t n), AT_FDCWD, p, 0, (p, n))
CALL(int, ftruncate, (int f, off_t n), f, "", 0, (f, n))
CALL(int, ftruncate64, (int f, off64_t n), f, "", 0, (f, n))
CALL(int, fsync, (int f), f, "", 1, (f))
CALL(int, fdatasync, (int f), f, "", 1, (f))
CALL(ssize_t, sendfile, (int t, int f, off_t *o, size_t n), t, "", 1, (t, f, o, n))
CALL(ssize_t, sendfile64, (int t, int f, off64_t *o, size_t n), t, "", 1, (t, f, o, n))
CALL(ssize_t, copy_file_range, (int f, off64_t *i, int t, off64_t *o, size_t n, unsigned g), t, "",
     1, (f, i, t, o, n, g))
CALL(ssize_t, writev, (int f, const struct iovec *v, int n), f, "", 1, (f, v, n))

/* A kill tears a write: half of it is in the file. */
#define WRITE(name, parameters, half, arguments) \
    ssize_t name parameters { \
        char absolute[PATH_MAX]; \
        if (below(file, "", absolute) && strikes("write", absolute, 1, 1)) { \
            if (action != KILL) return -1; \
            (void)!REAL(name) half; \
            kill(getpid(), SIGKILL); \
        } \
        return REAL(name) arguments; \
    }
WRITE(write, (int file, const void *data, size_t n), (file, data, n / 2), (file, data, n))
WRITE(pwrite, (int file, const void *data, size_t n, off_t o), (file, data, n / 2, o),
      (file, data, n, o))
WRITE(pwrite64, (int file, const void *data, size_t n, off64_t o), (file, data, n / 2, o),
      (file, data, n, o))

size_t fwrite(const void *data, size_t size, size_t n, FILE *file) {
    char absolute[PATH_MAX];
    if (below(fileno(file), "", absolute) && strikes("write", absolute, 1, 1)) {
        if (action != KILL) return 0;
        REAL(fwrite)(data, 1, size * n / 2, file), REAL(fflush)(file);
        kill(getpid(), SIGKILL);
    }
    return REAL(fwrite)(data, size, n, file);
}

/* What is in the buffer of a stream reaches its file here, or is lost. */
#define FLUSH(name) \
    int name(FILE *file) { \
        char absolute[PATH_MAX]; \
        if (file && __fpending(file) && STRIKES(#name, fileno(file), "", 1)) { \
            __fpurge(file); \
            int number = errno; \
            REAL(name)(file), errno = number; \
            return EOF; \
        } \
        return REAL(name)(file); \
    }
FLUSH(fflush)
FLUSH(fclose)

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = REAL(clock_gettime)(clock, now);
    if (!result && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += offset;
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    int result = REAL(gettimeofday)(now, zone);
    if (!result) now->tv_sec += offset;
    return result;
}

time_t time(time_t *now) {
    time_t found = REAL(time)(NULL) + offset;
    if (now) *now = found;
    return found;
}
