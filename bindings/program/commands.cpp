// commands.cpp -- `mtorch jupyter install | uninstall | kernel FILE`, `mtorch debug [script]`, `mtorch compare FILE..`
#include <unistd.h>

#include <string>

#include "bindings/core/lua.h"
#include "bindings/program/program.h"
#include "engine/core/device.h"

namespace mt::program {
namespace {

constexpr char kUsage[] =
    "jupyter needs one of: install [--prefix=FOLDER], uninstall [--prefix=FOLDER], kernel CONNECTION_FILE";

int run_kernel(lua_State* L, const char* connection_file) {
  std::string why;
  decltype(&mtorch_jupyter) main = nullptr;
  if (!open_plugin("libmtorch_jupyter.so", why).find("mtorch_jupyter", main)) {
    why =
        why.empty()
            ? "this build of mtorch has no Jupyter kernel; it is built where xeus is found (Debian: xeus-dev)"
            : why + "; the kernel needs the library xeus (Debian 12: apt-get install libxeus6)";
    lua_pushstring(L, ("jupyter: " + why).c_str());
    return 1;
  }
  interrupt_compiled(L);
  return main(L, connection_file, {call, take_interrupt});
}

int jupyter(lua_State* L, const std::vector<std::string>& words) {
  if (words.size() == 2 && words[0] == "kernel") return run_kernel(L, words[1].c_str());
  if (words.empty() || words.size() > 2 ||
      push_library(L, "mtorch.jupyter.install", words[0].c_str()) != 0 || !lua_isfunction(L, -1)) {
    lua_pushstring(L, kUsage);
    return 2;
  }
  lua_pushstring(L, words.size() > 1 ? words[1].c_str() : "");
  lua_pushstring(L, program_path().c_str());
  return call(L, 2, 0);
}

/// Calls `start` of a module, which returns the sentence of a usage error or nothing.
int start(lua_State* L, const char* module, const std::vector<std::string>& words) {
  if (push_library(L, module, "start") != 0) return 1;
  lua::push_list(L, words, [L](const std::string& word) { lua::push_text(L, word); });
  if (call(L, 1, 1) != 0) return 1;
  return lua_isstring(L, -1) ? 2 : 0;
}

}  // namespace

int push_library(lua_State* L, const char* module, const char* name) {
  lua_getglobal(L, "require");
  lua_pushstring(L, module);
  if (const int status = call(L, 1, 1)) return status;
  lua_getfield(L, -1, name);
  lua_remove(L, -2);
  return 0;
}

std::optional<int> run_command(lua_State* L, std::vector<std::string> words) {
  if (words.empty() || access(words[0].c_str(), F_OK) == 0) return {};  // a script of that name
  const std::string name = words[0];
  words.erase(words.begin());
  if (name == "jupyter") return jupyter(L, words);
  if (name == "debug") return start(L, "mtorch.script.debugger", words);
  if (name == "compare") return start(L, "mtorch.extras.report.compare", words);
  return {};
}

}  // namespace mt::program
