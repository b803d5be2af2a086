/// A flock for LD_PRELOAD that fails with the error whose number is in FLOCK_ERROR.
#include <cerrno>
#include <cstdlib>

extern "C" int flock(int, int) {
  errno = std::atoi(std::getenv("FLOCK_ERROR"));
  return -1;
}
