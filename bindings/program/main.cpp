// main.cpp -- the program: options, scripts, tracebacks, exit status, Ctrl-C
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "bindings/core/module.h"
#include "bindings/open.h"
#include "bindings/program/program.h"
#include "engine/core/device.h"
#include "kernels/cpu/pool/parallel.h"
#include "kernels/math/lapack.h"

namespace mt::program {
namespace {

lua_State* running = nullptr;

/// The first word of a process that run_processes has started.
constexpr char kStarted[] = "--started-process";

// Compiled loops do not check hooks, but LuaJIT's profiler makes them check for a sample. None is
// due for days, unless Ctrl-C requests one every 10 ms. The loop then continues in the interpreter,
// which runs hooks. The check is at every line, because a loop may be one line: tight loops take up
// to twice the time, so this is only for the prompt.
volatile sig_atomic_t compiled_stop = 0;
void leave_compiled(int every_us) {
  const itimerval timer{{0, every_us}, {every_us ? 0 : 1000000000, every_us}};
  setitimer(ITIMER_PROF, &timer, nullptr);
}
void on_sample(void*, lua_State*, int, int) { leave_compiled(0); }

/// Raises the interrupt inside Lua code that does not call functions of mtorch.
void stop_hook(lua_State* L, lua_Debug*) {
  lua_sethook(L, nullptr, 0, 0);
  luaL_error(L, "interrupted!");
}

/// The first Ctrl-C requests an interrupt, the second one exits at once. LuaJIT's compiled loops
/// react only after interrupt_compiled(), LAPACK does not.
void on_interrupt(int) {
  if (!interrupt()) _exit(130);
  if (running) lua_sethook(running, stop_hook, LUA_MASKCALL | LUA_MASKRET | LUA_MASKCOUNT, 1);
  if (compiled_stop) leave_compiled(10000);
  static const char text[] = "interrupted: stops when LAPACK returns\n";
  if (lapack::is_running() && write(STDERR_FILENO, text, sizeof text - 1) < 0) return;
}

/// `mtorch watch`: every half second Lua code is interrupted for a look at the script's file.
void watch_hook(lua_State* L, lua_Debug*) {
  lua_sethook(L, nullptr, 0, 0);
  lua_getglobal(L, "require");
  lua_pushliteral(L, "mtorch.script.watch");
  lua_call(L, 1, 1);
  lua_getfield(L, -1, "check");
  lua_call(L, 0, 0);
  lua_pop(L, 1);
}
void on_alarm(int) {
  if (running && !mt_interrupted)
    lua_sethook(running, watch_hook, LUA_MASKCALL | LUA_MASKRET | LUA_MASKCOUNT, 1);
}
int start_watch(lua_State*) {
  struct sigaction action {};
  action.sa_handler = on_alarm, action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, nullptr);
  const itimerval half_second{{0, 500000}, {0, 500000}};
  setitimer(ITIMER_REAL, &half_second, nullptr);
  return 0;
}

/// Removes the program's own calls from the end of a traceback at the top of the stack.
int without_own_calls(lua_State* L) {
  const std::string_view text = lua::text_at(L, -1);
  const size_t own = text.find("\n\t[C]: in function 'call'\n\tmtorch/");
  if (own != text.npos) lua_pushlstring(L, text.data(), own);
  return 1;
}

/// A stack overflow within a file of the library gets the user's line instead: a module whose forward calls itself.
void place_overflow(lua_State* L) {
  if (std::strncmp(lua_tostring(L, 1), "mtorch/", 7) != 0) return;
  lua_Debug call{};
  for (int level = 1; lua_getstack(L, level, &call); ++level) {
    lua_getinfo(L, "Sl", &call);
    if (call.currentline <= 0 || std::strncmp(call.source, "@mtorch/", 8) == 0) continue;
    lua_pushfstring(L, "%s:%d: stack overflow: does a function call itself?", call.short_src,
                    call.currentline);
    return lua_replace(L, 1);
  }
}

/// The handler of errors: script/traceback.lua, for which a full stack has no room.
int traceback(lua_State* L) {
  lua_sethook(L, nullptr, 0, 0);  // a second interrupt must not occur here
  lua_settop(L, 1);
  if (lua_type(L, 1) != LUA_TSTRING || !std::strstr(lua_tostring(L, 1), "stack overflow")) {
    lua_getglobal(L, "require");
    lua_pushliteral(L, "mtorch.script.traceback");
    if (lua_pcall(L, 1, 1, 0) == 0) {
      lua_pushvalue(L, 1);
      if (lua_pcall(L, 1, 1, 0) == 0) return without_own_calls(L);
    }
    lua_settop(L, 1);
  }
  if (!lua_isstring(L, 1)) return 1;
  place_overflow(L);
  luaL_traceback(L, L, lua_tostring(L, 1), 1);
  return without_own_calls(L);
}

int has_c_stack(lua_State* L) { return lua_pushboolean(L, lua::c_stack_left()), 1; }

/// string.gsub uses a buffer on the C stack, and its function may call it recursively.
lua_CFunction plain_gsub = nullptr;
int gsub(lua_State* L) {
  if (!lua::c_stack_left())
    return luaL_error(L, "stack overflow (C's): string.gsub is nested too deeply");
  return plain_gsub(L);
}

/// run_jupyter(connection_file): serves it; returns an exit status, and why there is no kernel.
int run_jupyter(lua_State* L) {
  const char* const file = luaL_checkstring(L, 1);
  std::string why;
  decltype(&mtorch_jupyter) main = nullptr;
  if (open_plugin("libmtorch_jupyter.so", why).find("mtorch_jupyter", main)) {
    interrupt_compiled(L);
    return lua_pushinteger(L, main(L, file, {call, take_interrupt})), 1;
  }
  lua_pushinteger(L, 1);
  lua::push_text(
      L,
      why.empty()
          ? "jupyter: this build of mtorch has no Jupyter kernel; it is built where xeus is found "
            "(Debian: xeus-dev)"
          : "jupyter: " + why +
                "; the kernel needs the library xeus (Debian 12: apt-get install libxeus6)");
  return 2;
}

// Functions of mtorch.core.program.
int push_doctor(lua_State* L) { return lua_pushinteger(L, doctor()), 1; }
/// call(fn, words): fn with the words, if any, as a function that Lua's names of frames do not know: a main chunk. The
/// words may be more than `unpack` takes.
int call_plainly(lua_State* L) {
  lua_settop(L, 2);
  lua_pushvalue(L, 1);
  const int n = lua_istable(L, 2) ? int(lua_objlen(L, 2)) : 0;
  for (int i = 1; i <= n; ++i) lua_rawgeti(L, 2, i);
  lua_call(L, n, LUA_MULTRET);
  return lua_gettop(L) - 2;
}
int push_path(lua_State* L) { return lua::push_text(L, program_path()), 1; }
/// run_processes(count, most, restarts, hosts, words): returns the status.
int start_processes(lua_State* L) {
  const Processes p{int(lua_tointeger(L, 1)), int(lua_tointeger(L, 2)), int(lua_tointeger(L, 3)),
                    lua_tostring(L, 4)};
  std::vector<std::string> words = {kStarted};
  lua::each_entry(L, 5, [&](int) { words.emplace_back(lua::text_at(L, -1)); });
  return lua_pushinteger(L, run_processes(p, words)), 1;
}
/// -E: returns the paths of Lua without those of the environment.
int ignore_environment(lua_State* L) {
  unsetenv("LUA_PATH"), unsetenv("LUA_CPATH");  // for the states of workers too
  lua_pushliteral(L, LUA_PATH_DEFAULT);
  lua_pushliteral(L, LUA_CPATH_DEFAULT);
  return 2;
}

/// Adds the program's functions, mtorch.core.program, and changes Lua's own (script/start.lua).
int adjust_library(lua_State* L) {
  static const luaL_Reg functions[] = {{"call", call_plainly},
                                       {"doctor", push_doctor},
                                       {"has_c_stack", has_c_stack},
                                       {"path", push_path},
                                       {"ignore_environment", ignore_environment},
                                       {"read_line", read_line},
                                       {"remember_line", remember_line},
                                       {"run_jupyter", run_jupyter},
                                       {"run_processes", start_processes},
                                       {"start_watch", start_watch},
                                       {nullptr, nullptr}};
  lua_getglobal(L, "require");
  lua_pushvalue(L, -1);
  lua_pushliteral(L, "mtorch.core");
  lua_call(L, 1, 1);
  lua_newtable(L);
  luaL_register(L, nullptr, functions);
  lua_pushfstring(L, "mtorch %s -- " LUAJIT_VERSION, version());
  lua_setfield(L, -2, "version");
  lua_setfield(L, -2, "program");
  lua_pop(L, 1);
  lua_pushliteral(L, "mtorch.script.start");
  lua_call(L, 1, 0);
  lua_getglobal(L, "string");
  lua_getfield(L, -1, "gsub");
  if (!plain_gsub) plain_gsub = lua_tocfunction(L, -1);
  lua_pop(L, 1);
  lua_pushcfunction(L, gsub);
  if (plain_gsub) lua_setfield(L, -2, "gsub");
  lua_settop(L, 0);
  return 0;
}

}  // namespace

/// Frees the memory of a failed run.
static int collect(lua_State* L) {
  lua_gc(L, LUA_GCCOLLECT, 0);
  return 0;
}

int call(lua_State* L, int arguments, int results) {
  const int base = lua_gettop(L) - arguments;
  lua_pushcfunction(L, traceback);
  lua_insert(L, base);
  lua_State* const outer = std::exchange(running, L);
  const int status = lua_pcall(L, arguments, results, base);
  running = outer;
  lua_sethook(L, nullptr, 0, 0);
  lua_remove(L, base);
  if (status ==
      LUA_ERRERR) {  // the handler failed: Ctrl-C came within it, or a recursion left no room
    lua_pop(L, 1);
    lua_pushstring(
        L, mt_interrupted ? "interrupted!" : "stack overflow: does a function call itself?");
  }
  if (status != 0 && lua_cpcall(L, collect, nullptr) != 0) lua_pop(L, 1);  // a finalizer failed
  return status;
}

int push_library(lua_State* L, const char* module, const char* name) {
  lua_getglobal(L, "require");
  lua_pushstring(L, module);
  if (const int status = call(L, 1, 1)) return status;
  lua_getfield(L, -1, name);
  lua_remove(L, -2);
  return 0;
}

void report(lua_State* L) {
  if (lua_isnil(L, -1)) return;
  const char* message = lua_tostring(L, -1);
  std::fflush(stdout);
  say(stderr, "mtorch: {}\n", message ? message : "(error object is not a string)");
  lua_pop(L, 1);
}

void interrupt_compiled(lua_State* L) {
  luaJIT_profile_start(L, "li1000000000", on_sample, nullptr);
  compiled_stop = 1;
}

bool take_interrupt() {
  const bool was = mt_interrupted;
  mt_interrupted = 0;
  return was;
}

namespace {

/// Keeps closed standard streams unusable, so that the next opened file does not become one.
void hold_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
      return;
}

/// At exit: output that could not be written is an error (as in GNU's close_stdout).
void check_output() {
  const bool lost = std::ferror(stdout);
  if (std::fflush(stdout) == 0 && !lost) return;
  say(stderr, "mtorch: cannot write standard output{}{}\n", lost ? "" : ": ",
      lost ? "" : std::strerror(errno));
  std::fflush(stderr);
  _exit(1);
}

/// Runs what the words name, then the prompt if they ask for it. Returns the exit status; the message of an error is on
/// the stack.
int run(lua_State* L, const std::vector<std::string>& words) {
  if (push_library(L, "mtorch.script.program", "run") != 0) return 1;
  lua::push_list(L, words, [L](const std::string& word) { lua::push_text(L, word); });
  if (push_library(L, "mtorch.script.options", "read") != 0) return 1;
  lua_pushvalue(L, -2);
  if (call(L, 1, 2) != 0 || call(L, 3, 3) != 0) return 1;
  const int status = int(lua_tointeger(L, -3));
  const bool prompts = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return status == 0 && prompts ? repl(L) : status;
}

/// Grows the stack by 1 MiB in advance: in a full address space it could not grow later.
[[gnu::noinline]] void grow_stack() {
  char room[1 << 20];
  room[0] = 0;
  asm volatile("" : : "r"(room) : "memory");  // prevents removal by the compiler
}

int main(int argc, char** argv) {
  rlimit stack;
  if (getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur >= 4 << 20) grow_stack();
  hold_streams();
  std::atexit(check_output);
  std::vector<std::string> words(argv, argv + argc);
  if (argc > 1 && words[1] == kStarted) {
    report_end();
    words.erase(words.begin() + 1);
  }
  lua_State* L = luaL_newstate();
  if (!L) {
    say(stderr, "mtorch: cannot start Lua: not enough memory\n");
    return 2;
  }
  luaL_openlibs(L);
  open_lua(L);
  lua_settop(L, 0);
  adjust_library(L);
  lua_pushcfunction(L, adjust_library);
  lua_setfield(L, LUA_REGISTRYINDEX, lua::kPrepareState);
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  sigaction(SIGINT, &action, nullptr);
  int status = run(L, words);
  if (status != 0) {
    report(L);
    if (take_interrupt()) status = 130;
  }
  push_library(L, "mtorch.script.program", "end_profile");
  if (lua_isfunction(L, -1) && call(L, 0, 0) != 0) report(L);
  lua_close(L);
  return status;
}

}  // namespace
}  // namespace mt::program

int main(int argc, char** argv) { return mt::program::main(argc, argv); }
