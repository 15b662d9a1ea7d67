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
  void (*kernel)(void** arguments) = nullptr;
};

namespace {

/// What follows it: a call of the kernel with arguments that lie apart.
std::string call_of(const std::string& name) {
  return R"(
#line 1 "call"
template <class... P, size_t... I>
static void mt_call(void (*k)(P...), void** a, std::index_sequence<I...>) {
  (void)a;
  k(*static_cast<std::remove_const_t<P>*>(a[I])...);
}
template <class... P> static void mt_call(void (*k)(P...), void** a) {
  mt_call(k, a, std::index_sequence_for<P...>{});
}
extern "C" void mt_kernel(void** a) { mt_call(&)" +
         name + ", a); }\n";
}

[[noreturn]] void stop(const std::string& sentence) {
  std::fprintf(stderr, "emulated launch: %.4000s\n", sentence.c_str());
  std::abort();
}

void compile(Loaded& loaded) {
  if (loaded.kernel) return;
  char folder[] = "/tmp/mtorch-emulated-XXXXXX";
  if (!mkdtemp(folder)) stop("no folder in /tmp");
  const std::string base = folder, text = base + "/kernel.cpp", log = base + "/log",
                    library = base + "/kernel.so";
  const std::string source = std::regex_replace(  // shared memory whose size the launch gives
      loaded.source,
      std::regex(
          "extern\\s+__shared__\\s+(?:__align__\\(\\d+\\)\\s*)?([\\w ]+?)\\s*(\\w+)\\s*\\[\\s*\\]"),
      "$1* $2 = static_cast<$1*>(emulation::shared())");
  static const std::regex host("#[ \t]*include[ \t]*<(torch|ATen|c10)/[^>]*>");
  std::ofstream(text) << "#line 1 \"source\"\n"
                      << std::regex_replace(source, host, "") << call_of(loaded.name);
  const std::string command = MT_COMPILER " " MT_MODULE_FLAGS
                                          " -shared -Wl,-Bsymbolic -include module.h -o " +
                              library + " " + text + " 2> " + log;
  std::string message;
  if (std::system(command.c_str()) != 0) {
    std::ifstream said(log);
    message = "g++ does not compile it: " + std::string((std::istreambuf_iterator<char>(said)), {});
  } else if (!(loaded.library = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL))) {
    message = dlerror();
  } else {
    static const Words words = {
        {&threadIdx, &blockIdx, &blockDim, &gridDim}, shared, barrier, exchange, lane, vote};
    reinterpret_cast<void (*)(const Words*)>(dlsym(loaded.library, "mt_words"))(&words);
    loaded.kernel = reinterpret_cast<void (*)(void**)>(dlsym(loaded.library, "mt_kernel"));
  }
  for (const std::string& file : {text, log, library}) unlink(file.c_str());
  rmdir(folder);
  if (!loaded.kernel) stop(message);
}

}  // namespace

Loaded* load(const char* source, const char* name) { return new Loaded{source, name}; }

void unload(Loaded* loaded) {
  if (loaded->library) dlclose(loaded->library);
  delete loaded;
}

void (*kernel_of(Loaded* loaded))(void** arguments) {
  compile(*loaded);
  return loaded->kernel;
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
