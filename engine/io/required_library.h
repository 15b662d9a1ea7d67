// required_library.h -- shared libraries that a function needs; if one is missing, an error names its package
#pragma once
#include <initializer_list>

#include "engine/core/error.h"
#include "kernels/dynamic_library.h"

namespace mt {

/// A shared library is a struct whose only object is created at first use; each call looks up its function once:
///
///   struct Zip : RequiredLibrary {
///     Zip() : RequiredLibrary("zip files", "libzip4", {"libzip.so.5", "libzip.so.4"}) {}
///   };
///   MT_LOADED(Zip, zip_fread)(file, to, n);
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
  /// Throws Error if the library is too old to have the function or variable.
  FoundSymbol find(const char* name) const {
    void* at;
    if (!library_.find(name, at))
      fail("{}: the library has no {}; on Debian: apt-get install {}", purpose_, name, package_);
    return {at};
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

/// A function of such a library, which a header declares with its name and type.
#define MT_LOADED(Library, name)                                             \
  ([] {                                                                      \
    static decltype(&::name) const function = loaded<Library>().find(#name); \
    return function;                                                         \
  }())

}  // namespace mt
