// modules.cpp -- CUDA C from a script without a GPU: compiled by g++ into a library that runs launches
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <regex>
#include <string>

namespace emulation {
namespace {

/// What follows the script's text: a call of the kernel with arguments that lie apart.
std::string call_of(const std::string& name) {
  return "\n#line 1 \"call\"\n"
         "template <class... P, size_t... I>\n"
         "static void mt_call(void (*k)(P...), void** a, std::index_sequence<I...>) {\n"
         "  k(*static_cast<std::remove_const_t<P>*>(a[I])...);\n}\n"
         "template <class... P> static void mt_start(void (*k)(P...), const dim3& g, const dim3& b,\n"
         "                                           size_t shared, void** a) {\n"
         "  emulation::launch(true, g, b, shared, [&] { mt_call(k, a, std::index_sequence_for<P...>{}); });\n}\n"
         "extern \"C\" void mt_run(const dim3& g, const dim3& b, size_t shared, void** a) {\n"
         "  mt_start(&" + name + ", g, b, shared, a);\n  std::fflush(stdout);\n}\n";
}

}  // namespace

bool load(const char* source, const char* name, Loaded& loaded, char* why, size_t room) {
  char folder[] = "/tmp/mtorch-emulated-XXXXXX";
  if (!mkdtemp(folder)) return std::snprintf(why, room, "no folder in /tmp"), false;
  const std::string base = folder, text = base + "/kernel.cpp", log = base + "/log", library = base + "/kernel.so";
  const std::string dynamic = std::regex_replace(  // shared memory whose size the launch gives
      std::string(source), std::regex("extern\\s+__shared__\\s+(?:__align__\\(\\d+\\)\\s*)?([\\w ]+?)\\s*(\\w+)\\s*\\[\\s*\\]"),
      "$1* $2 = static_cast<$1*>(emulation::shared())");
  std::ofstream(text) << "#include \"" MT_EMULATION "/emulation.cpp\"\n#include <utility>\n"
                         "using std::min; using std::max;\n" << dynamic << call_of(name);
  const std::string command = std::string(MT_COMPILER) + " -std=c++20 -O1 -w -fPIC -shared -fwrapv "
      "-ffp-contract=off -fno-gnu-unique -Wl,-Bsymbolic -I" MT_EMULATION " -o " + library +
      " " + text + " 2> " + log;
  bool fine = std::system(command.c_str()) == 0;
  if (!fine) {
    std::ifstream said(log);
    std::string all((std::istreambuf_iterator<char>(said)), {});
    std::snprintf(why, room, "the emulation does not compile it: %.1500s", all.c_str());
  } else if (!(loaded.library = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL))) {
    std::snprintf(why, room, "the emulation: %s", dlerror());
    fine = false;
  } else {
    loaded.run = reinterpret_cast<decltype(loaded.run)>(dlsym(loaded.library, "mt_run"));
    fine = loaded.run != nullptr;
  }
  for (const std::string& file : {text, log, library}) unlink(file.c_str());
  rmdir(folder);
  return fine;
}

void unload(const Loaded& loaded) { dlclose(loaded.library); }

void* variable(const Loaded& loaded, const char* name, size_t* bytes) {
  void* const at = dlsym(loaded.library, name);
  void* entry = nullptr;
  Dl_info info{};
  const bool known = at && dladdr1(at, &info, &entry, RTLD_DL_SYMENT) && entry;
  *bytes = known ? static_cast<const ElfW(Sym)*>(entry)->st_size : 0;
  return at;
}

}  // namespace emulation
