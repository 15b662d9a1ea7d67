// library_loader.h -- loads a shared library at first use; keeps its path or why that failed
#pragma once
#include <dlfcn.h>

#include <cstdio>
#include <cstring>

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
  /// The handle of the opened file, or null if it cannot be opened.
  void* open(const char* name) {
    void* const file = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    if (file) return file;
    const char* const said = dlerror();
    refuse(std::strncmp(said, name, std::strlen(name)) == 0 ? "" : name, said);
    return nullptr;
  }
  /// Sets the path to that of the file that contains the function.
  template <class F> void locate(F* function, const char* name) {
    Dl_info info{};
    void* symbol = nullptr;
    std::memcpy(&symbol, &function, sizeof symbol);
    const bool known = dladdr(symbol, &info) && info.dli_fname;
    std::snprintf(path, sizeof path, "%s", known ? info.dli_fname : name);
  }
};

/// Sets the pointer to the function with that name; returns whether the file has it.
inline bool find_function(void* file, auto& pointer, const char* name) {
  void* const found = dlsym(file, name);
  std::memcpy(&pointer, &found, sizeof found);
  return found;
}

}  // namespace mt
