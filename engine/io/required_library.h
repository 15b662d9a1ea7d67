// required_library.h -- shared libraries that a function needs; if one is missing, an error names its package
#pragma once
#include <initializer_list>

#include "engine/core/error.h"
#include "kernels/dynamic_library.h"

namespace mt {

/// A struct with the functions of a shared library is created once, at first use:
///
///   struct Zip : RequiredLibrary {
///     Zip() : RequiredLibrary("zip files", "libzip4", {"libzip.so.5", "libzip.so.4"}) {}
///     MT_SYMBOL(zip_fread)
///   };
///   const Zip& zip() { return loaded<Zip>(); }
///   zip().zip_fread(file, to, n);
class RequiredLibrary {
 public:
  /// Throws Error with `purpose` and the Debian package.
  RequiredLibrary(const char* purpose, const char* package,
                  std::initializer_list<const char*> names)
      : library_(names),
        purpose_(purpose),
        package_(package) {
    if (!library_)
      fail("{}: {} cannot be loaded; on Debian: apt-get install {}", purpose, *names.begin(),
           package);
  }
  RequiredLibrary(const RequiredLibrary&) = delete;

 protected:
  /// The address of a function. Throws Error if the library is too old to have it.
  template <class F> F* find(const char* name) const {
    F* symbol;
    if (!library_.find(name, symbol))
      fail("{}: the library has no {}; on Debian: apt-get install {}", purpose_, name, package_);
    return symbol;
  }

 private:
  DynamicLibrary library_;
  const char *purpose_, *package_;
};

/// The one object of such a struct.
template <class Library> const Library& loaded() {
  static const Library library;
  return library;
}

/// Defines a member for a function that a header declares, with its name and type.
#define MT_SYMBOL(name) decltype(&::name) name = find<decltype(::name)>(#name);

}  // namespace mt
