// modules.cpp -- CUDA C from a script without a GPU: compiled by g++ into a library that runs launches
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

namespace emulation {

struct Loaded {
  std::string source, name;
  void* library = nullptr;
  void (*run)(const dim3& grid, const dim3& block, size_t shared, void** arguments) = nullptr;
};

namespace {

/// What stands before the script's text, beside the emulation itself.
constexpr char kBefore[] = "#include \"" MT_EMULATION
                           "/emulation.cpp\"\n#include <algorithm>\n#include <utility>\n"
                           "using std::min; using std::max;\n"
                           "struct float2 { float x, y; }; struct alignas(16) float4 { float x, y, "
                           "z, w; };\n#line 1 \"source\"\n";

/// What follows it: a call of the kernel with arguments that lie apart.
std::string call_of(const std::string& name) {
  return "\n#line 1 \"call\"\n"
         "template <class... P, size_t... I>\n"
         "static void mt_call(void (*k)(P...), void** a, std::index_sequence<I...>) {\n"
         "  (void)a;\n  k(*static_cast<std::remove_const_t<P>*>(a[I])...);\n}\n"
         "template <class... P> static void mt_start(void (*k)(P...), const dim3& g, const dim3& "
         "b,\n"
         "                                           size_t shared, void** a) {\n"
         "  emulation::launch(true, g, b, shared, [&] { mt_call(k, a, "
         "std::index_sequence_for<P...>{}); });\n}\n"
         "extern \"C\" void mt_run(const dim3& g, const dim3& b, size_t shared, void** a) {\n"
         "  mt_start(&" +
         name + ", g, b, shared, a);\n  std::fflush(stdout);\n}\n";
}

[[noreturn]] void stop(const std::string& sentence) {
  std::fprintf(stderr, "emulated launch: %.4000s\n", sentence.c_str());
  std::abort();
}

void compile(Loaded& loaded) {
  if (loaded.run) return;
  char folder[] = "/tmp/mtorch-emulated-XXXXXX";
  if (!mkdtemp(folder)) stop("no folder in /tmp");
  const std::string base = folder, text = base + "/kernel.cpp", log = base + "/log",
                    library = base + "/kernel.so";
  const std::string source = std::regex_replace(  // shared memory whose size the launch gives
      loaded.source,
      std::regex(
          "extern\\s+__shared__\\s+(?:__align__\\(\\d+\\)\\s*)?([\\w ]+?)\\s*(\\w+)\\s*\\[\\s*\\]"),
      "$1* $2 = static_cast<$1*>(emulation::shared())");
  std::ofstream(text) << kBefore << source << call_of(loaded.name);
  const std::string command = std::string(MT_COMPILER) +
                              " -std=c++20 -O1 -w -fPIC -shared -fwrapv "
                              "-ffp-contract=off -fno-gnu-unique -Wl,-Bsymbolic -I" MT_EMULATION
                              " -o " +
                              library + " " + text + " 2> " + log;
  std::string trouble;
  if (std::system(command.c_str()) != 0) {
    std::ifstream said(log);
    trouble = "g++ does not compile it: " + std::string((std::istreambuf_iterator<char>(said)), {});
  } else if (!(loaded.library = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL))) {
    trouble = dlerror();
  } else {
    loaded.run = reinterpret_cast<decltype(loaded.run)>(dlsym(loaded.library, "mt_run"));
  }
  for (const std::string& file : {text, log, library}) unlink(file.c_str());
  rmdir(folder);
  if (!loaded.run) stop(trouble);
}

}  // namespace

Loaded* load(const char* source, const char* name) { return new Loaded{source, name}; }

void unload(Loaded* loaded) {
  if (loaded->library) dlclose(loaded->library);
  delete loaded;
}

void run(Loaded* loaded, const dim3& grid, const dim3& block, size_t shared, void** arguments,
         int count) {
  compile(*loaded);
  std::vector<uint64_t> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) std::memcpy(&values[i], arguments[i], 8);
  submit([loaded, grid, block, shared, values]() mutable {
    std::vector<void*> at;
    for (uint64_t& v : values) at.push_back(&v);
    with_memory([&] { loaded->run(grid, block, shared, at.data()); });
  });
}

void* variable(Loaded* loaded, const char* name, size_t* bytes) {
  compile(*loaded);
  void* const at = dlsym(loaded->library, name);
  void* entry = nullptr;
  Dl_info info{};
  const bool known = at && dladdr1(at, &info, &entry, RTLD_DL_SYMENT) && entry;
  *bytes = known ? static_cast<const ElfW(Sym)*>(entry)->st_size : 0;
  return at;
}

}  // namespace emulation
