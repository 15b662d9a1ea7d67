// nvrtc.cpp -- finds NVRTC, compiles with it, and caches the results
#include "engine/gpu/nvrtc.h"

#include <cxxabi.h>
#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <sstream>

#include "engine/core/error.h"
#include "engine/gpu/cuda_preamble.h"
#include "engine/gpu/cuda_signature.h"
#include "kernels/cuda/library.h"

namespace mt {
namespace {

// ---- the library ---------------------------------------------------------------------------------

const char* const kNames[] = {"libnvrtc.so.13", "libnvrtc.so.12"};

std::string file_identity(const std::string& path) {
  struct stat s {};
  if (stat(path.c_str(), &s) != 0) return "";
  return fmt::format("{} {} {}.{}", path, s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec);
}

/// The folder of a file, with symbolic links resolved.
std::string folder_of(const std::string& file) {
  std::error_code missing;
  const std::filesystem::path real = std::filesystem::canonical(file, missing);
  return (missing ? std::filesystem::path(file) : real).parent_path();
}

/// The location of NVRTC, as far as it is known without opening its 100 MB.
struct NvrtcLocation {
  std::string path;      // a file, or the library's name for the dynamic linker
  std::string identity;  // of the file: path, size and time; empty if the linker finds it
  std::string include;   // CUDA's headers, next to it; may be empty

  NvrtcLocation() {
    if (const std::string own = cuda::setting("MTORCH_NVRTC"); !own.empty()) {
      use_if_found(own);
      path = own;
      return;
    }
    for (const char* name : kNames)
      for (const std::string& file : cuda::library_files(name, {"cu13", "cuda_nvrtc"}))
        if (use_if_found(file)) return;
  }
  bool use_if_found(const std::string& file) {
    identity = file_identity(file);
    if (identity.empty()) return false;
    path = file;
    const std::string folder = folder_of(file);
    for (const char* near : {"/../include", "/../../../include"})
      if (include.empty() && !file_identity(folder + near + "/cuda_fp16.h").empty())
        include = folder + near;
    return true;
  }
};
const NvrtcLocation& place() {
  static const NvrtcLocation p;
  return p;
}

/// NVRTC opens its builtins by name only; if its folder is not in the linker's search path, they
/// must already be open.
void open_builtins() {
  glob_t found{};
  if (glob((folder_of(place().path) + "/libnvrtc-builtins.so.*").c_str(), 0, nullptr, &found) == 0)
    for (size_t i = 0; i < found.gl_pathc; ++i) DynamicLibrary({found.gl_pathv[i]});
  globfree(&found);
}

using ProgramHandle = struct NvrtcProgram*;

/// The functions that are used; declared here, so that the build does not need CUDA.
struct Nvrtc : LibraryFunctions {
  int (*create)(ProgramHandle*, const char* text, const char* name, int, const char* const*,
                const char* const*) = find("nvrtcCreateProgram");
  int (*destroy)(ProgramHandle*) = find("nvrtcDestroyProgram");
  int (*compile)(ProgramHandle, int, const char* const*) = find("nvrtcCompileProgram");
  int (*log_size)(ProgramHandle, size_t*) = find("nvrtcGetProgramLogSize");
  int (*log)(ProgramHandle, char*) = find("nvrtcGetProgramLog");
  int (*cubin_size)(ProgramHandle, size_t*) = find("nvrtcGetCUBINSize");
  int (*cubin)(ProgramHandle, char*) = find("nvrtcGetCUBIN");
  int (*ptx_size)(ProgramHandle, size_t*) = find("nvrtcGetPTXSize");
  int (*ptx)(ProgramHandle, char*) = find("nvrtcGetPTX");
  int (*add_name)(ProgramHandle, const char*) = find("nvrtcAddNameExpression");
  int (*lowered)(ProgramHandle, const char*, const char**) = find("nvrtcGetLoweredName");
  int (*archs_count)(int*) = find("nvrtcGetNumSupportedArchs");
  int (*archs)(int*) = find("nvrtcGetSupportedArchs");
  const char* (*error_text)(int) = find("nvrtcGetErrorString");
  std::vector<int> architectures;
  std::string unavailable_reason;

  Nvrtc()
      : Nvrtc(place().path.empty() ? DynamicLibrary({kNames[0], kNames[1]})
                                   : DynamicLibrary({place().path.c_str()})) {}
  explicit Nvrtc(const DynamicLibrary& library) : LibraryFunctions(library) {
    if (!library) {
      unavailable_reason =
          place().path.empty()
              ? "NVRTC, CUDA's compiler library (libnvrtc.so.13 or .12), was not found; "
                "install the "
                "CUDA toolkit, or name the file in MTORCH_NVRTC"
              : "NVRTC, CUDA's compiler library, cannot be loaded: " + std::string(library.error());
      return;
    }
    if (place().path.find('/') != std::string::npos) open_builtins();
    int n = 0;
    if (!complete() || archs_count(&n) != 0 || n < 1) {
      unavailable_reason = "NVRTC, CUDA's compiler library, is too old; CUDA 12 or 13 is needed";
      return;
    }
    architectures.resize(n);
    archs(architectures.data());
    std::ranges::sort(architectures);
  }
};
const Nvrtc& library() {
  static const Nvrtc lib;
  if (!lib.unavailable_reason.empty()) fail("{}", lib.unavailable_reason);
  return lib;
}

// ---- the input and the output of a compilation ---------------------------------------------------

/// The signature of the kernel is obtained as the name of an instance of this template.
constexpr char kProbe[] = "template <class> __device__ char mt_signature_;\n";

std::string line_directive(const CudaOrigin& o) {
  std::string file;
  for (const char c : o.place) {
    if (c == '"' || c == '\\') file += '\\';
    file += uint8_t(c) < 32 ? '?' : c;
  }
  return fmt::format("#line {} \"{}\"\n", o.line, file);
}
std::string whole_text(const CudaSource& s) {
  std::string text = kProbe + s.defines;
  size_t next = 0;
  int number = 1;
  for (size_t at = 0; at < s.text.size(); ++number) {
    const bool may = at == 0 || text.size() < 2 || text[text.size() - 2] != '\\';
    for (; next < s.origins.size() && s.origins[next].first <= number; ++next)
      if (may) text += line_directive(s.origins[next]);
    const size_t end = std::min(s.text.find('\n', at), s.text.size() - 1) + 1;
    text.append(s.text, at, end - at);
    at = end;
  }
  return text + "\n";
}

bool begins_with_any(const std::string& text, std::initializer_list<const char*> beginnings) {
  return std::ranges::any_of(beginnings, [&](const char* b) { return text.starts_with(b); });
}
void check_options(const CudaSource& s) {
  for (const std::string& o : s.options)
    if (begins_with_any(o, {"-arch", "--gpu-architecture", "-rdc=t", "--relocatable-device-code=t",
                            "-dc", "--device-c", "-dlto", "--dlink-time-opt"}))
      fail("option '{}' is not supported: a kernel is compiled for this GPU and loaded directly",
           o);
}

/// The first lines of the compiler's log; `train.lua(12): error` is converted to `train.lua:12:
/// error`, Lua's format.
std::string format_log(const std::string& log, const std::vector<CudaOrigin>& origins) {
  std::string text;
  int lines = 0, left_out = 0;
  for (size_t at = 0; at < log.size();) {
    size_t end = std::min(log.find('\n', at), log.size());
    std::string line = log.substr(at, end - at);
    at = end + 1;
    if (line.empty() || line[0] == '\0') continue;
    if (lines == 24) {
      ++left_out;
      continue;
    }
    for (const CudaOrigin& o : origins) {
      const size_t n = o.place.size(), close = line.find(')', n);
      if (line.compare(0, n + 1, o.place + "(") != 0 || close == line.npos) continue;
      line = fmt::format("{}:{}{}", o.place, line.substr(n + 1, close - n - 1),
                         line.substr(close + 1));
      break;
    }
    text += (lines++ ? "\n" : "") + line.substr(0, 400);
  }
  while (!text.empty() && text.back() == '\0') text.pop_back();
  if (left_out) text += fmt::format("\n.. and {} more lines", left_out);
  return text;
}

/// "(float*, int)", from the name of the probe's instance.
std::string signature_of(const char* mangled) {
  int status = 0;
  char* plain = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
  std::string text = plain ? plain : "";
  std::free(plain);
  const size_t begin = text.find("(*)"), end = text.rfind(')');
  if (begin == text.npos || end < begin + 3) return "";
  return text.substr(begin + 3, end + 1 - begin - 3);
}

/// The target, with GPU-specific features (sm_90a): the code runs only on this GPU.
std::string target_of(int arch) { return fmt::format("sm_{}{}", arch, arch >= 90 ? "a" : ""); }

CudaCode compile(const CudaSource& s, int arch) {
  const Nvrtc& lib = library();
  if (arch < lib.architectures.front())
    fail(
        "the GPU has compute capability {}.{}, this NVRTC compiles for {}.{} and newer; install an "
        "older CUDA toolkit",
        arch / 10, arch % 10, lib.architectures.front() / 10, lib.architectures.front() % 10);
  const bool known = std::ranges::binary_search(lib.architectures, arch);
  int nearest = lib.architectures.front();
  for (const int a : lib.architectures)
    if (a <= arch) nearest = a;
  std::vector<std::string> options = s.options;
  options.push_back(known ? "-arch=" + target_of(arch) : fmt::format("-arch=compute_{}", nearest));
  if (!place().include.empty()) {
    options.push_back("-I" + place().include);
    options.push_back("-I" + place().include + "/cccl");
  }
  std::vector<const char*> list;
  for (const std::string& o : options) list.push_back(o.c_str());

  const std::string text = whole_text(s),
                    probe = fmt::format("&mt_signature_<decltype(&{})>", s.name);
  ProgramHandle program = nullptr;
  std::istringstream words(kCudaEmptyHeaders);
  const std::vector<std::string> empty(std::istream_iterator<std::string>(words), {});
  std::vector<const char*> header_names, headers(empty.size(), "");
  for (const std::string& name : empty) header_names.push_back(name.c_str());
  for (const auto& [name, content] : kCudaHeaders)
    header_names.push_back(name), headers.push_back(content);
  int status = lib.create(&program, text.c_str(), "source", int(headers.size()), headers.data(),
                          header_names.data());
  if (status != 0) fail("NVRTC: {}", lib.error_text(status));
  const auto destroy = [&lib](ProgramHandle* p) { lib.destroy(p); };
  const std::unique_ptr<ProgramHandle, decltype(destroy)> owner(&program, destroy);
  lib.add_name(program, s.name.c_str());
  lib.add_name(program, probe.c_str());
  status = lib.compile(program, int(list.size()), list.data());
  CudaCode code;
  size_t n = 0;
  if (lib.log_size(program, &n) == 0 && n > 1) {
    code.log.resize(n);
    lib.log(program, code.log.data());
    code.log = format_log(code.log, s.origins);
  }
  if (status != 0)
    fail("'{}' does not compile{}{}", s.name, code.log.empty() ? ": " : ":\n",
         code.log.empty() ? lib.error_text(status) : code.log.c_str());
  const char *symbol = nullptr, *type = nullptr;
  if (lib.lowered(program, s.name.c_str(), &symbol) != 0 || !symbol)
    fail("'{}' is not a kernel of the source", s.name);
  code.symbol = symbol;
  if (lib.lowered(program, probe.c_str(), &type) == 0 && type) code.signature = signature_of(type);
  status = (known ? lib.cubin_size : lib.ptx_size)(program, &n);
  code.image.resize(status == 0 ? n : 0);
  if (status == 0) status = (known ? lib.cubin : lib.ptx)(program, code.image.data());
  if (status != 0 || n == 0) fail("NVRTC: no code for '{}': {}", s.name, lib.error_text(status));
  return code;
}

// ---- the cache -----------------------------------------------------------------------------------

void add_field(std::string& to, std::string_view field) {
  to += fmt::format("{}:", field.size());
  to += field;
}
/// Everything that the code depends on; empty if the text includes files, which are unknown.
std::string key_of(const CudaSource& s, int arch, const CudaText& text) {
  if (text.reads_files) return "";
  for (const std::string& o : s.options)
    if (begins_with_any(o, {"-I", "--include-path", "-include", "--pre-include"})) return "";
  std::string identity = place().identity;
  if (identity.empty()) {  // the linker finds it, and its path is known once it is open
    Dl_info info{};
    if (!dladdr(reinterpret_cast<const void*>(library().create), &info) || !info.dli_fname)
      return "";
    identity = file_identity(info.dli_fname);
  }
  std::string key = "CUDA C 3\n";
  for (const std::string& field : {identity, target_of(arch), s.name, s.defines, s.text})
    add_field(key, field);
  for (const std::string& o : s.options) add_field(key, o);
  const bool has_lines = std::ranges::any_of(s.options, [](const std::string& o) {
    return begins_with_any(o, {"-lineinfo", "--generate-line-info", "-G", "--device-debug"});
  });
  if (has_lines || text.says_where)
    for (const CudaOrigin& o : s.origins)
      key += fmt::format("at {} {} {}\n", o.first, o.line, o.place);
  return key;
}

}  // namespace

CudaCode compile_cuda(const CudaSource& s, int arch, const DiskCache& cache) {
  const auto began = std::chrono::steady_clock::now();
  const auto elapsed = [began] {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began)
        .count();
  };
  if (s.text.find('\0') != s.text.npos) fail("the source has a zero byte; CUDA C is plain text");
  check_options(s);
  const std::string key = key_of(s, arch, read_cuda(s.text));
  if (!key.empty()) {
    if (const std::optional<std::string> cached = cache.find(key)) {
      // Symbol and signature are null-terminated.
      const size_t first = cached->find('\0'), second = cached->find('\0', first + 1);
      if (second != cached->npos) {
        const std::string signature = cached->substr(first + 1, second - first - 1);
        return {
            cached->substr(second + 1), cached->substr(0, first), signature, "", true, elapsed()};
      }
    }
  }
  CudaCode code = compile(s, arch);
  if (!key.empty()) cache.store(key, code.symbol + '\0' + code.signature + '\0' + code.image);
  code.milliseconds = elapsed();
  return code;
}

std::string nvrtc_unavailable_reason() {
  try {
    library();
    return "";
  } catch (const Error& e) { return e.what(); }
}

}  // namespace mt
