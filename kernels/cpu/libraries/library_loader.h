// library_loader.h -- opens a shared library at first use; keeps its path or why that failed
#pragma once
#include <cstdio>
#include <cstring>

#include "kernels/dynamic_library.h"

namespace mt {

struct LibraryLoader {
  const char* cure;  // how to install or configure the library
  char path[512] = {}, reason[1024] = {};

  /// Returns false and sets the reason to "NAME: WHAT; CURE".
  bool refuse(const char* name, const char* what, const char* other_cure = nullptr) {
    std::snprintf(reason, sizeof reason, "%s%s%s; %s", name, *name ? ": " : "", what,
                  other_cure ? other_cure : cure);
    return false;
  }
  bool lacks(const char* name, const char* function) {
    char what[128];
    std::snprintf(what, sizeof what, "%s is not in it", function);
    return refuse(name, what);
  }
  DynamicLibrary open(const char* name) {
    const DynamicLibrary file({name});
    if (!file)
      refuse(std::strncmp(file.error(), name, std::strlen(name)) == 0 ? "" : name, file.error());
    return file;
  }
  /// Sets the path to that of the file that contains the function.
  template <class F> void locate(F* function, const char* name) {
    Dl_info info{};
    const bool known = dladdr(reinterpret_cast<void*>(function), &info) && info.dli_fname;
    std::snprintf(path, sizeof path, "%s", known ? info.dli_fname : name);
  }
};

}  // namespace mt
