// dynamic_library.h -- shared libraries that are opened at first use instead of at start-up
#pragma once
#include <dlfcn.h>

#include <initializer_list>

namespace mt {

/// The address of a function or variable, which converts to a pointer to it.
struct FoundSymbol {
  void* at;
  template <class F> operator F*() const { return reinterpret_cast<F*>(at); }
};

/// A shared library, or none. Copies are the same library; it stays open unless close() is called.
class DynamicLibrary {
 public:
  DynamicLibrary() = default;
  /// The first of these files, or names for the dynamic linker, that can be opened; null is the
  /// program itself, with the libraries whose symbols are global.
  explicit DynamicLibrary(std::initializer_list<const char*> names,
                          int flags = RTLD_LAZY | RTLD_LOCAL) {
    for (const char* name : names)
      if (!handle_ && !(handle_ = dlopen(name, flags))) error_ = dlerror();
  }
  explicit operator bool() const { return handle_; }
  /// Why the last name could not be opened, as the dynamic linker says it: valid until its next error.
  const char* error() const { return error_; }

  /// Sets a pointer to the function or variable with this name; returns whether there is one.
  template <class T> bool find(const char* name, T*& to) const {
    to = handle_ ? reinterpret_cast<T*>(dlsym(handle_, name)) : nullptr;
    return to;
  }
  /// A name, and the pointer to set.
  struct Symbol {
    const char* name;
    void** to;
    template <class T>
    Symbol(const char* symbol, T*& pointer)
        : name(symbol),
          to(reinterpret_cast<void**>(&pointer)) {}
  };
  /// Sets all pointers; returns the first name that the library does not have, or null.
  const char* lacks(std::initializer_list<Symbol> symbols) const {
    for (const Symbol& s : symbols)
      if (!find(s.name, *s.to)) return s.name;
    return nullptr;
  }
  void close() {
    if (handle_) dlclose(handle_);
    handle_ = nullptr;
  }

 private:
  void* handle_ = nullptr;
  const char* error_ = "";
};

/// The base of a struct of pointers to functions of a library, each initialized by its name:
///   int (*create)(Handle*) = find("cublasCreate_v2");
class LibraryFunctions {
 public:
  LibraryFunctions() = default;
  explicit LibraryFunctions(const DynamicLibrary& library) : library_(library) {}
  /// Whether the library has all of them.
  bool complete() const { return complete_; }

 protected:
  FoundSymbol find(const char* name) {
    void* at;
    complete_ &= library_.find(name, at);
    return {at};
  }

 private:
  DynamicLibrary library_;
  bool complete_ = true;
};

}  // namespace mt
