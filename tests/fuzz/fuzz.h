// fuzz.h -- what the fuzz targets share: a parser may refuse its bytes by an mt::Error, and nothing else
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/core/error.h"
#include "engine/core/memory.h"
#include "engine/io/bytes.h"

namespace mt {

/// A file in memory.
inline RegularFile file_of(const char* data, size_t size) {
  RegularFile file{File(memfd_create("file", MFD_CLOEXEC)), size};
  if (!file.file.write({data, size})) fail("memfd_create");
  lseek(file.file.fd(), 0, SEEK_SET);
  return file;
}

/// Calls parse(bytes, size); sentences are what damaged files give. Other exceptions end the fuzzer.
template <class Parse> int fuzz(const uint8_t* data, size_t size, const Parse& parse) {
  static const bool limited = (set_memory_limit(int64_t(1) << 28), true);
  (void)limited;
  try {
    parse(reinterpret_cast<const char*>(data), size);
  } catch (const Error&) {}  // NOLINT
  return 0;
}

}  // namespace mt

#define MT_FUZZ(...)                                                          \
  extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t n) {     \
    return mt::fuzz(bytes, n, [](const char* data, size_t size) __VA_ARGS__); \
  }
