/* Sets the clock of one program: adds something to whatever the program takes for the time of day. The time
 * since the system was started stays as it is.
 *
 * What is added stands in the file $CLOCK_FACE. It has two settings, of which the first word says which one
 * counts. So a setting is never seen half written: the other one is written, and then the word. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* From `since` on the time is `ahead` of the true one, and by a millionth part more for each of `rate` as time
 * goes on. Times are in microseconds. */
struct setting {
  int64_t since;
  int64_t ahead;
  int64_t rate;
};

struct face {
  int64_t which;
  struct setting settings[2];
};

static const volatile struct face *face;

__attribute__((constructor)) static void find_face(void) {
  const char *path = getenv("CLOCK_FACE");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) {
    return;
  }
  void *mapped = mmap(NULL, sizeof *face, PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (mapped != MAP_FAILED) {
    face = mapped;
  }
}

static int64_t ahead_at(int64_t micros) {
  const volatile struct setting *setting = &face->settings[face->which & 1];
  return setting->ahead + (int64_t)((double)(micros - setting->since) * (double)setting->rate / 1e6);
}

int clock_gettime(clockid_t which, struct timespec *now) {
  int failed = (int)syscall(SYS_clock_gettime, which, now);
  if (!failed && face && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) {
    int64_t ahead = ahead_at((int64_t)now->tv_sec * 1000000 + now->tv_nsec / 1000);
    int64_t nanos = now->tv_nsec + ahead % 1000000 * 1000;
    now->tv_sec += ahead / 1000000 + (nanos >= 1000000000) - (nanos < 0);
    now->tv_nsec = (nanos + 1000000000) % 1000000000;
  }
  return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec time;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &time)) {
    return -1;
  }
  now->tv_sec = time.tv_sec;
  now->tv_usec = time.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *now) {
  struct timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  if (now) {
    *now = time.tv_sec;
  }
  return time.tv_sec;
}
