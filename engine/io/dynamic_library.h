// dynamic_library.h -- shared libraries that start-up does not need, opened at first use
#pragma once
#include <dlfcn.h>

#include <initializer_list>

#include "engine/core/error.h"

namespace mt {

/// A shared library, opened by the first of its names that the dynamic linker finds. It stays open.
/// A struct of its functions is made once, at first use:
///
///   struct Zip : DynamicLibrary {
///     Zip() : DynamicLibrary("zip files", "libzip4", {"libzip.so.5", "libzip.so.4"}) {}
///     MT_SYMBOL(zip_fread)
///   };
///   const Zip& zip() { static const Zip library; return library; }
///   zip().zip_fread(file, to, n);
class DynamicLibrary {
 public:
  /// Throws a sentence that names `purpose` and the Debian package.
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
  /// The address of a function. Throws where the library is too old to have it.
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

/// A member for a function that a header declares: it has its name and its type.
#define MT_SYMBOL(name) decltype(&::name) name = find<decltype(::name)>(#name);

}  // namespace mt
