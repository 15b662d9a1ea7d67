// dynamic_library.h -- shared libraries that are loaded at first use instead of at start-up
#pragma once
#include <dlfcn.h>

#include <initializer_list>

#include "engine/core/error.h"

namespace mt {

/// A shared library, loaded by the first of its names that the dynamic linker finds, and never
/// unloaded. A struct with its functions is created once, at first use:
///
///   struct Zip : DynamicLibrary {
///     Zip() : DynamicLibrary("zip files", "libzip4", {"libzip.so.5", "libzip.so.4"}) {}
///     MT_SYMBOL(zip_fread)
///   };
///   const Zip& zip() { static const Zip library; return library; }
///   zip().zip_fread(file, to, n);
class DynamicLibrary {
 public:
  /// Throws Error with `purpose` and the Debian package.
  DynamicLibrary(const char* purpose, const char* package, std::initializer_list<const char*> names)
      : purpose_(purpose),
        package_(package) {
    for (const char* name : names)
      if (!handle_) handle_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!handle_)
      fail("{}: {} cannot be loaded; on Debian: apt-get install {}", purpose, *names.begin(),
           package);
  }
  DynamicLibrary(const DynamicLibrary&) = delete;

 protected:
  /// The address of a function. Throws Error if the library is too old to have it.
  template <class F> F* find(const char* name) const {
    void* const symbol = dlsym(handle_, name);
    if (!symbol)
      fail("{}: the library has no {}; on Debian: apt-get install {}", purpose_, name, package_);
    return reinterpret_cast<F*>(symbol);
  }

 private:
  void* handle_ = nullptr;
  const char *purpose_, *package_;
};

/// Defines a member for a function that a header declares, with its name and type.
#define MT_SYMBOL(name) decltype(&::name) name = find<decltype(::name)>(#name);

}  // namespace mt
