// Functions of newer C libraries that the compiler's runtime inside this library needs. Defining them here
// lets the library load with older C libraries (Ubuntu 22.04 has 2.35).
#include <sys/random.h>

#include <cstdint>

// glibc 2.36; libstdc++ uses it for std::random_device.
extern "C" std::uint32_t arc4random();
extern "C" __attribute__((visibility("hidden"))) std::uint32_t arc4random() {
  std::uint32_t value = 0;
  while (getrandom(&value, sizeof value, 0) != sizeof value) {
  }
  return value;
}
