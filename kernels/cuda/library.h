// library.h -- finds the files of CUDA's libraries
#pragma once
#include <glob.h>

#include <cstdlib>
#include <initializer_list>
#include <string>
#include <vector>

#include "kernels/dynamic_library.h"

namespace mt::cuda {

/// A library with its handle on a GPU; both are null if there is none.
template <class Functions, class Handle> struct InUse {
  const Functions* library;
  Handle handle;
};

/// A scalar as calls take it, by address: a double for products of doubles, otherwise a float.
union Factor {
  double wide;
  float narrow;
  Factor(bool is_double, double x) {
    if (is_double) wide = x;
    else narrow = float(x);
  }
};

inline std::string setting(const char* variable) {
  const char* const value = std::getenv(variable);
  return value ? value : "";
}

/// The files with this name, in search order: in LD_LIBRARY_PATH, in the toolkit, in system
/// folders, in conda's, and in those of pip's packages nvidia/...
inline std::vector<std::string> library_files(const std::string& name,
                                              std::initializer_list<const char*> packages) {
  std::vector<std::string> folders, files;
  const auto add = [&](const char* variable, const std::string& below) {
    for (std::string rest = setting(variable); !rest.empty();) {
      const size_t end = rest.find(':');
      if (end != 0) folders.push_back(rest.substr(0, end) + below);
      rest = end == rest.npos ? "" : rest.substr(end + 1);
    }
  };
  add("LD_LIBRARY_PATH", "");
  add("CUDA_HOME", "/lib64");
  add("CUDA_PATH", "/lib64");
  for (const char* f : {"/usr/local/cuda/lib64", "/usr/lib/*-linux-gnu", "/usr/lib64"})
    folders.push_back(f);
  add("CONDA_PREFIX", "/lib");
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    for (const std::string package : packages)
      add(variable, "/lib/python3*/site-packages/nvidia/" + package + "/lib");
  for (const std::string& folder : folders) {
    glob_t found{};
    if (glob((folder + "/" + name).c_str(), 0, nullptr, &found) == 0)
      for (size_t i = 0; i < found.gl_pathc; ++i) files.push_back(found.gl_pathv[i]);
    globfree(&found);
  }
  return files;
}

}  // namespace mt::cuda
