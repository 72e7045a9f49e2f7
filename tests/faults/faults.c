/* Lets the n-th system call that changes a folder fail, stop half-way, or end the process.

   Loaded before the C library (LD_PRELOAD); `fault_arm` is called through ctypes. Calls on other
   files go through untouched. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { NOTHING, FAIL, HALF, KILL };

static char folder[PATH_MAX];
static int kind = NOTHING;
static long wanted = 0, seen = 0;

void fault_arm(const char *path, int what, long which) {
  snprintf(folder, sizeof folder, "%s", path);
  kind = what;
  wanted = which;
  seen = 0;
}

/* The calls so far, and none fails any more. */
long fault_disarm(void) {
  kind = NOTHING;
  folder[0] = 0;
  return seen;
}

static int inside(const char *path) {
  char whole[PATH_MAX];
  size_t length = strlen(folder);
  if (!length || !path)
    return 0;
  if (path[0] != '/') {
    if (!getcwd(whole, sizeof whole))
      return 0;
    return !strncmp(whole, folder, length);
  }
  return !strncmp(path, folder, length);
}

static int inside_of(int file) {
  char link[64], path[PATH_MAX];
  if (!folder[0])
    return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0)
    return 0;
  path[length] = 0;
  return inside(path);
}

/* Whether this call is the one; a process that is to end does so here. */
static int strikes(void) {
  if (++seen != wanted || kind == NOTHING)
    return 0;
  if (kind == KILL)
    raise(SIGKILL);
  return 1;
}

#define REAL(name) __typeof__(name) *real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

#define REFUSED(code)                                                                              \
  do {                                                                                             \
    errno = (code);                                                                                \
    return -1;                                                                                     \
  } while (0)

ssize_t write(int file, const void *data, size_t count) {
  REAL(write);
  if (inside_of(file) && strikes()) {
    if (kind == HALF && count > 1) {
      wanted = seen + 1; /* the rest of it fails */
      return real(file, data, count / 2);
    }
    REFUSED(ENOSPC);
  }
  return real(file, data, count);
}

ssize_t writev(int file, const struct iovec *parts, int count) {
  REAL(writev);
  if (inside_of(file) && strikes())
    REFUSED(ENOSPC);
  return real(file, parts, count);
}

ssize_t copy_file_range(int from, off64_t *at, int to, off64_t *there, size_t count,
                        unsigned flags) {
  REAL(copy_file_range);
  if (inside_of(to) && strikes())
    REFUSED(ENOSPC);
  return real(from, at, to, there, count, flags);
}

static int creates(const char *path, int flags) {
  return (flags & (O_CREAT | O_TRUNC)) && inside(path) && strikes();
}

#define MODE(flags, mode)                                                                          \
  mode_t mode = 0;                                                                                 \
  if ((flags) & O_CREAT) {                                                                         \
    va_list arguments;                                                                             \
    va_start(arguments, flags);                                                                    \
    mode = va_arg(arguments, mode_t);                                                              \
    va_end(arguments);                                                                             \
  }

int open(const char *path, int flags, ...) {
  REAL(open);
  MODE(flags, mode)
  if (creates(path, flags))
    REFUSED(EMFILE);
  return real(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
  REAL(open64);
  MODE(flags, mode)
  if (creates(path, flags))
    REFUSED(EMFILE);
  return real(path, flags, mode);
}

int openat(int at, const char *path, int flags, ...) {
  REAL(openat);
  MODE(flags, mode)
  if (creates(path, flags))
    REFUSED(EMFILE);
  return real(at, path, flags, mode);
}

int rename(const char *from, const char *to) {
  REAL(rename);
  if (inside(to) && strikes())
    REFUSED(EIO);
  return real(from, to);
}

int link(const char *from, const char *to) {
  REAL(link);
  if (inside(to) && strikes())
    REFUSED(EPERM);
  return real(from, to);
}

int fsync(int file) {
  REAL(fsync);
  if (inside_of(file) && strikes())
    REFUSED(EIO);
  return real(file);
}

int ftruncate64(int file, off64_t size) {
  REAL(ftruncate64);
  if (inside_of(file) && strikes())
    REFUSED(ENOSPC);
  return real(file, size);
}

int chmod(const char *path, mode_t mode) {
  REAL(chmod);
  if (inside(path) && strikes())
    REFUSED(EPERM);
  return real(path, mode);
}

int mkdir(const char *path, mode_t mode) {
  REAL(mkdir);
  if (inside(path) && strikes())
    REFUSED(ENOSPC);
  return real(path, mode);
}
