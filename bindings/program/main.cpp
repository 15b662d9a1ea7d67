// main.cpp -- the program: options, scripts, tracebacks, exit status, Ctrl-C
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>

#include "bindings/core/module.h"
#include "bindings/open.h"
#include "bindings/program/program.h"
#include "kernels/cpu/pool/parallel.h"
#include "kernels/math/lapack.h"

namespace mt::program {
namespace {

lua_State* running = nullptr;

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
  if (lapack::under_way() && write(STDERR_FILENO, text, sizeof text - 1) < 0) return;
}

/// Loads a chunk of the program; out of memory is reported by `call`.
void load_own(lua_State* L, const char* code) {
  luaL_loadbuffer(L, code, std::strlen(code), "@mtorch/options");
}

/// `mtorch watch`: every half second Lua code is interrupted for a look at the script's file.
void watch_hook(lua_State* L, lua_Debug*) {
  lua_sethook(L, nullptr, 0, 0);
  load_own(L, "require('mtorch.script.watch').check()");
  lua_call(L, 0, 0);
}
void on_alarm(int) {
  if (running && !mt_interrupted)
    lua_sethook(running, watch_hook, LUA_MASKCALL | LUA_MASKRET | LUA_MASKCOUNT, 1);
}

/// Whether the message already has a position: it begins with the only user line on the stack.
bool has_position(lua_State* L, const std::string& message) {
  lua_Debug frame;
  std::string line;
  for (int level = 1, lines = 0; lua_getstack(L, level, &frame); ++level) {
    lua_getinfo(L, "Sl", &frame);
    if (frame.currentline <= 0 || !lua::library_file(frame).empty()) continue;
    if (++lines > 1) return false;
    line = fmt::format("{}:{}: ", frame.short_src, frame.currentline);
  }
  return message.rfind(line, 0) == 0;
}

/// Replaces the message at the top of the stack by what a function of help/hints.lua makes of it, for a text.
void add_hint(lua_State* L, const char* function, const std::string& text = "") {
  const int top = lua_gettop(L);
  lua_getglobal(L, "require");
  lua_pushliteral(L, "mtorch.help.hints");
  if (lua_pcall(L, 1, 1, 0) == 0) {
    lua_getfield(L, -1, function);
    lua_pushvalue(L, top);
    lua::push_text(L, text);
    if (lua_pcall(L, 2, 1, 0) == 0 && lua_isstring(L, -1)) lua_replace(L, top);
  }
  lua_settop(L, top);
}

int traceback(lua_State* L) {
  lua_sethook(L, nullptr, 0, 0);  // a second interrupt must not occur here
  if (!lua_isstring(L, 1)) {
    if (lua_isnoneornil(L, 1)) lua_pushliteral(L, "nil");
    else if (!luaL_callmeta(L, 1, "__tostring") || !lua_isstring(L, -1))
      lua_pushfstring(L, "(error object is a %s value)", luaL_typename(L, 1));
    lua_replace(L, 1);
    lua_settop(L, 1);
  }
  const std::string message = lua_tostring(L, 1);
  const auto has = [&](const char* words) { return message.find(words) != std::string::npos; };
  if (message.rfind("mtorch/", 0) == 0) {  // a position inside the library
    const char* const colon =
        has("'self' (a ") ? "; are methods called with a colon, object:method(..)?" : "";
    lua::push_text(L, lua::position(L) + message + colon);
    lua_replace(L, 1);
  }
  lua_Debug frame;
  bool has_line = message.find(':') == std::string::npos || message.rfind("module '", 0) == 0;
  for (int level = 1; !has_line && lua_getstack(L, level, &frame); ++level)
    has_line = lua_getinfo(L, "l", &frame) && frame.currentline > 0;
  if (!has_line) {
    lua_pushliteral(L, " (a tail call loses its line; return (f(x)) keeps it)");
    lua_concat(L, 2);
  }
  if (has("attempt to ") || has("expected") || has("must be a number") || has("methods are called"))
    add_hint(L, "running");
  if (!mt_interrupted && has_position(L, message)) return 1;
  luaL_traceback(L, L, lua_tostring(L, 1), 1);
  return 1;
}

/// Searches modules in the script's folder first.
void add_script_folder(lua_State* L, const std::string& script) {
  const size_t slash = script.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : script.substr(0, slash);
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "path");
  const std::string path = fmt::format("{0}/?.lua;{0}/?/init.lua;{1}", folder, lua_tostring(L, -1));
  lua_pop(L, 1);
  lua_pushlstring(L, path.data(), path.size());
  lua_setfield(L, -2, "path");
  lua_pop(L, 1);
}

void set_arg(lua_State* L, const std::vector<std::string>& all, int script) {
  lua_newtable(L);
  for (int i = 0; i < int(all.size()); ++i) {
    lua_pushlstring(L, all[i].data(), all[i].size());
    lua_rawseti(L, -2, i - script);
  }
  lua_setglobal(L, "arg");
}

int has_c_stack(lua_State* L) { return lua_pushboolean(L, lua::c_stack_left()), 1; }

/// string.gsub uses a buffer on the C stack, and its function may call it recursively.
lua_CFunction plain_gsub = nullptr;
int gsub(lua_State* L) {
  if (!lua::c_stack_left())
    return luaL_error(L, "stack overflow (C's): string.gsub is nested too deeply");
  return plain_gsub(L);
}

/// os.exit closes the state first, so that files are flushed and tensors freed; bytecode cannot be
/// loaded, because LuaJIT does not verify it; nested coroutines and string.gsub, for which LuaJIT
/// does not check the C stack, fail before it overflows. print keeps the lines of a tensor below each other;
/// reading True, False or None prints a hint.
constexpr char kStart[] = R"lua(
local has_c_stack = ...
local create, resume, wrap = coroutine.create, coroutine.resume, coroutine.wrap
local overflow = "stack overflow (C's): coroutines are nested too deeply"
local depth = 0
local function leave(...)
  depth = depth - 1
  return ...
end
local function resume_checked(co, ...)
  if type(co) ~= 'thread' then return resume(co, ...) end
  if depth >= 2000 or not has_c_stack() then return false, overflow end
  depth = depth + 1
  return leave(resume(co, ...))
end
coroutine.resume = resume_checked
local function results(ok, ...)
  if ok then return ... end
  local message = ... -- each level adds a position, except for an overflow with thousands of levels
  error(message, type(message) == 'string' and not message:find('stack overflow', 1, true) and 2 or 0)
end
coroutine.wrap = function(f, ...)
  if type(f) ~= 'function' then return wrap(f, ...) end
  local co = create(f)
  return function(...) return results(resume_checked(co, ...)) end
end
local exit, load_any, load_file = os.exit, load, loadfile
os.exit = function(code) exit(code == nil and 0 or code, true) end
local function text_only(chunk, message)
  if not chunk and message and message:find('wrong mode', 1, true) then message = 'bytecode is not accepted' end
  return chunk, message
end
load = function(chunk, name, _, ...)
  return text_only(load_any(chunk, name or (type(chunk) == 'string' and chunk or '=(load)'), 't', ...))
end
loadstring = load
loadfile = function(name, _, ...) return text_only(load_file(name, 't', ...)) end
dofile = function(name)
  local chunk, message = loadfile(name)
  if not chunk then error(message, 2) end
  return chunk()
end
local plain_print = print
print = function(...)
  for i = select('#', ...) > 1 and 1 or 2, select('#', ...) do
    if type((select(i, ...))) == 'userdata' then return plain_print(require 'mtorch.core.shown'.in_line(...)) end
  end
  plain_print(...)
end
local words = {False = 'false', True = 'true', None = 'nil', null = 'nil'}
local core = require 'mtorch.core'
core.globals_metatable = {__index = function(_, name)
  if words[name] then core.hint(('%s is nil here; Lua writes %s'):format(name, words[name])) end
end}
setmetatable(_G, core.globals_metatable)
package.loaders[2] = function(name)
  local path, tried = package.searchpath(name, package.path)
  if not path then return tried end
  local chunk, message = loadfile(path)
  if not chunk then
    error(("error loading module '%s' from file '%s':\n\t%s"):format(name, path, message), 3)
  end
  return chunk
end
)lua";

int adjust_library(lua_State* L) {
  lua_getfield(L, LUA_REGISTRYINDEX, "_LOADED");
  lua_getfield(L, -1, "mtorch.core");
  lua_pushcfunction(L, traceback);  // for interactive.lua
  lua_setfield(L, -2, "traceback");
  lua_pushcfunction(L, read_line);  // for debugger.lua
  lua_setfield(L, -2, "read_line");
  lua_settop(L, 0);
  luaL_loadbuffer(L, kStart, sizeof kStart - 1, "@mtorch/start.lua");
  lua_pushcfunction(L, has_c_stack);
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

/// Reads standard input; a shebang line becomes a comment.
std::string standard_input() {
  std::string text;
  char piece[65536];
  for (size_t n; (n = std::fread(piece, 1, sizeof piece, stdin)) > 0;) text.append(piece, n);
  return text.empty() || text[0] != '#' ? text : "--" + text;
}

/// Sets mt, and what else the text mentions: loading the others takes milliseconds.
int predefine_for(lua_State* L, const std::string& text) {
  const auto says = [&](const char* word) { return text.find(word) != std::string::npos; };
  return text.empty() ? 0 : predefine(L, says("nn"), says("optim"));
}

int load_file(lua_State* L, const std::string& name) {
  if (name == "-") {
    const std::string text = standard_input();
    const int status = predefine_for(L, text);
    return status != 0 ? status : load_text(L, text, "=stdin");
  }
  const int status = luaL_loadfilex(L, name.c_str(), "t");
  if (status != 0 && std::strstr(lua_tostring(L, -1), "wrong mode")) {
    lua_pop(L, 1);
    lua_pushfstring(L, "%s: bytecode is not accepted; run the Lua source", name.c_str());
  }
  if (status == LUA_ERRSYNTAX) {
    std::ifstream file(name);
    add_hint(L, "syntax", std::string(std::istreambuf_iterator<char>(file), {}));
  }
  return status;
}

}  // namespace

int load_text(lua_State* L, const std::string& text, const char* chunk) {
  lua::push_chunks(L, chunk);
  lua::push_text(L, text);
  lua_rawseti(L, -2, int(lua_objlen(L, -2)) + 1);
  lua_pop(L, 1);
  const int status = luaL_loadbufferx(L, text.data(), text.size(), chunk, "t");
  if (status == LUA_ERRSYNTAX) add_hint(L, "syntax", text);
  return status;
}

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

int predefine(lua_State* L, bool nn, bool optim) {
  static const char code[] =
      "local with_nn, with_optim = ... mt = require 'mtorch' "
      "if with_nn then nn = mt.nn end if with_optim then optim = mt.optim end";
  load_own(L, code);
  lua_pushboolean(L, nn), lua_pushboolean(L, optim);
  return call(L, 2, 0);
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

/// The option of a process that run_processes has started.
constexpr char kStarted[] = "--started-process";

struct Options {
  std::vector<std::string> code, libraries;
  bool interactive = false, version = false, clean = false, watch = false, is_started = false;
  std::string device, seed, profile;
  int threads = 0;
  Processes processes;
  std::vector<std::string> rest;
};

/// Applies --threads, --seed and --device through functions of the module.
int apply(lua_State* L, const Options& o) {
  static const char code[] =
      "local threads, seed, device = ... local mt, core = require 'mtorch', require 'mtorch.core' "
      "if threads > 0 then mt.set_num_threads(threads) end "
      "if seed then mt.manual_seed(seed) end "
      "local reason = device ~= '' and core.device_unavailable_reason(device) or '' "
      "if reason ~= '' then error('--device: ' .. reason, 0) end";
  load_own(L, code);
  lua_pushinteger(L, o.threads);
  if (o.seed.empty()) lua_pushnil(L);
  else lua_pushnumber(L, std::atof(o.seed.c_str()));
  lua_pushstring(L, o.device.c_str());
  return call(L, 3, 0);
}

/// --profile: starts a recording. The function that ends it is in the registry, for `end_profile`.
constexpr char kEndProfile[] = "mtorch.end_profile";
int begin_profile(lua_State* L, const std::string& path) {
  static const char code[] =
      "local path = ... require 'mtorch.script.profile' "
      "return require('mtorch.core').profile_program(path ~= 'true' and path or nil)";
  load_own(L, code);
  lua_pushstring(L, path.c_str());
  if (call(L, 1, 1) != 0) return 1;
  lua_setfield(L, LUA_REGISTRYINDEX, kEndProfile);
  return 0;
}
void end_profile(lua_State* L) {
  lua_getfield(L, LUA_REGISTRYINDEX, kEndProfile);
  if (lua_isfunction(L, -1) && call(L, 0, 0) != 0) report(L);
}

int begin_watch(lua_State* L, const std::string& script) {
  load_own(L, "require('mtorch.script.watch').start(...)");
  lua::push_text(L, script);
  if (call(L, 1, 0) != 0) return 1;
  struct sigaction action {};
  action.sa_handler = on_alarm, action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, nullptr);
  const itimerval half_second{{0, 500000}, {0, 500000}};
  return setitimer(ITIMER_REAL, &half_second, nullptr);
}

/// Warns that options after a script that ignores its arguments have no effect.
int lost_flags(lua_State* L, const Options& o) {
  static const char code[] = R"lua(
local script, flag = ...
local file = io.open(script)
local text = file and file:read('*a'):gsub('%-%-[^\n]*', '') or '...'
if file then file:close() end
for _, word in ipairs{'%f[%w_]args?%f[^%w_]', '%.%.%.', '%f[%w_]dofile%f[^%w_]', '%f[%w_]loadfile%f[^%w_]'} do
  if text:find(word) then return end
end
for name in text:gmatch('%f[%w_]require%s*%(?%s*(.[%w_.]*)') do
  if not name:find('^[\'"]mtorch') then return end -- which may read them
end
io.stderr:write(("mtorch: %s has no mt.args, so '%s' after it has no effect; write mtorch %s .. %s\n"):format(script,
  flag, flag, script))
)lua";
  struct stat what;  // a pipe can be read only once
  if (o.rest[0] == "-" || stat(o.rest[0].c_str(), &what) != 0 || !S_ISREG(what.st_mode)) return 0;
  for (size_t i = 1; i < o.rest.size(); ++i)
    for (const char* flag : {"--threads", "--seed", "--device"}) {
      if (o.rest[i].rfind(flag, 0) != 0) continue;
      load_own(L, code);
      lua_pushstring(L, o.rest[0].c_str());
      lua_pushstring(L, flag);
      return call(L, 2, 0);
    }
  return 0;
}

/// -e: statements, or an expression whose values are printed.
int run_code(lua_State* L, const std::string& code) {
  static constexpr char kName[] = "=(command line)";
  if (load_text(L, code, kName) == 0) return call(L, 0, 0);
  const int top = lua_gettop(L);
  if (load_text(L, "return " + code, kName) != 0) return lua_settop(L, top), 1;
  return call(L, 0, LUA_MULTRET) != 0 || call_prompt(L, "print", top, 0) != 0;
}

int run_all(lua_State* L, const Options& o, const std::vector<std::string>& words) {
  const bool has_script = !o.rest.empty();
  const int script = has_script ? int(words.size() - o.rest.size()) : 0;
  set_arg(L, words, script);
  if ((o.threads || !o.seed.empty() || !o.device.empty()) && apply(L, o) != 0) return 2;
  if (!o.profile.empty() && begin_profile(L, o.profile) != 0) return 1;
  if (predefine_for(L, fmt::format("{}", fmt::join(o.code, " "))) != 0) return 1;
  for (const std::string& name : o.libraries) {
    if (name == "mt" || name == "nn" || name == "optim") {
      if (predefine(L, name == "nn", name == "optim") != 0) return 1;
      continue;
    }
    lua_getglobal(L, "require");
    lua_pushstring(L, name.c_str());
    if (call(L, 1, 1) != 0) return 1;
    lua_setglobal(L, name.c_str());
  }
  for (const std::string& code : o.code)
    if (run_code(L, code) != 0) return 1;
  if (has_script) {
    if (lost_flags(L, o) != 0) return 1;
    if (o.rest[0] != "-") add_script_folder(L, o.rest[0]);
    if (load_file(L, o.rest[0]) != 0) return 1;
    if (o.watch && begin_watch(L, o.rest[0]) != 0) return 1;
    for (size_t i = 1; i < o.rest.size(); ++i)
      lua_pushlstring(L, o.rest[i].data(), o.rest[i].size());
    if (call(L, int(o.rest.size()) - 1, 0) != 0) return 1;
  }
  const bool nothing = !has_script && o.code.empty() && o.libraries.empty() && !o.version;
  if (o.interactive || (nothing && isatty(STDIN_FILENO))) return repl(L);
  if (nothing) {
    if (load_file(L, "-") != 0) return 1;
    return call(L, 0, 0) != 0;
  }
  return 0;
}

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

int usage(const std::string& sentence) {
  say(stderr, "mtorch: {}\nusage: mtorch [options] [script [args]]; see mtorch --help\n", sentence);
  return 2;
}

int unknown_option(const CLI::App& app, const std::string& given) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  const std::string near = lua::nearest(names, given.substr(0, given.find('=')));
  return usage(fmt::format("unknown option '{}'{}", given,
                           near.empty() ? "" : fmt::format(" (did you mean {}?)", near)));
}

/// Rejects an option that is not a number (`whole`: an integer) from `low` to `high`.
CLI::Validator number(double low, double high, bool whole, const char* what) {
  return CLI::Validator(
      [=](const std::string& text) {
        char* end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        const bool good = !text.empty() && !*end && value >= low && value <= high &&
                          !(whole && value != std::floor(value));
        return good ? std::string() : fmt::format("{} is needed, got '{}'", what, text);
      },
      "");
}

/// Parses the command line; returns an exit status if it ends the program.
std::optional<int> read_options(int argc, char** argv, Options& o) {
  CLI::App app(
      "A small deep-learning system: runs Lua scripts with tensors, gradients and fast kernels.\n"
      "Without a script it reads commands from the terminal; `mtorch doctor` checks this machine;\n"
      "`mtorch watch train.lua` takes over changes of its functions while it runs;\n"
      "`mtorch compare a.jsonl b.jsonl` shows logs of runs side by side.",
      "mtorch");
  app.prefix_command();
  app.add_option("-e", o.code, "run a piece of code")->allow_extra_args(false)->type_name("CODE");
  app.add_option("-l", o.libraries, "require a library into a global of its name")
      ->allow_extra_args(false)
      ->type_name("LIB");
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.add_flag("-i", o.interactive, "read commands after the script");
  app.add_flag("-v,--version", o.version, "show the version");
  app.add_flag("-E", o.clean, "ignore LUA_PATH and LUA_CPATH");
  app.add_option("--device", o.device, "'cpu' or 'cuda'; fails at once if it cannot be used")
      ->type_name("NAME");
  app.add_option("--threads", o.threads, "the number of threads of kernels")
      ->type_name("N")
      ->check(number(1, 1024, true, "a whole number from 1 to 1024"));
  app.add_option("--processes", o.processes.count,
                 "start several processes of the script, by mpirun (mt.dist)")
      ->type_name("N")
      ->check(number(1, 65536, true, "a whole number from 1 to 65536"));
  app.add_option("--hosts", o.processes.hosts,
                 "the machines of the processes, with their numbers: a:4,b:4")
      ->type_name("LIST");
  app.add_option("--restarts", o.processes.restarts,
                 "how often all processes are started again after one has failed")
      ->type_name("N")
      ->check(number(0, 1000000, true, "a whole number from 0 to 1000000"));
  app.add_flag(kStarted, o.is_started)->group("");
  app.add_option("--seed", o.seed, "the seed of the random numbers")
      ->type_name("N")
      ->check(number(-HUGE_VAL, HUGE_VAL, false, "a number"));
  app.add_flag("--profile", o.profile,
               "print a profile at the end; --profile=FILE.json also writes a trace");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::string help = app.help();
    const size_t options = help.find("[OPTIONS]");
    if (options != help.npos) help.replace(options, 9, "[options] [script [args]]");
    say(stdout, "{}", help);
    return 0;
  } catch (const CLI::ArgumentMismatch& e) {
    const std::string text = e.what();
    return usage(text.substr(0, text.find(':')) + " needs a value");
  } catch (const CLI::ParseError& e) { return usage(e.what()); }
  o.rest = app.remaining();
  if (!o.rest.empty() && o.rest[0] == "--") o.rest.erase(o.rest.begin());
  else if (!o.rest.empty() && o.rest[0].size() > 1 && o.rest[0][0] == '-')
    return unknown_option(app, o.rest[0]);
  return std::nullopt;
}

/// The same command line without the options of Processes, by mpirun.
int start_processes(Options& o, const std::vector<std::string>& words) {
  if (o.rest.empty() && o.code.empty()) return usage("--processes needs a script");
  if (const std::string why = check_hosts(o.processes); !why.empty()) return usage(why);
  const size_t script = words.size() - o.rest.size();
  std::vector<std::string> others = {kStarted};
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string name = i < script ? words[i].substr(0, words[i].find('=')) : "";
    if (name != "--processes" && name != "--hosts" && name != "--restarts")
      others.push_back(words[i]);
    else if (name == words[i]) ++i;
  }
  return run_processes(o.processes, others);
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
  Options o;
  std::vector<std::string> words(argv, argv + argc);
  if (const auto status = read_options(argc, argv, o)) return *status;
  if (o.processes.are_asked_for()) return start_processes(o, words);
  if (o.is_started) {
    report_end();
    std::erase(words, kStarted);
  }
  if (o.version) say(stdout, "mtorch {} -- {}\n", version(), LUAJIT_VERSION);
  if (!o.rest.empty() && o.rest[0] == "doctor" && access("doctor", F_OK) != 0)
    return o.rest.size() == 1 ? doctor() : usage("doctor takes no arguments");
  if (!o.rest.empty() && o.rest[0] == "watch" && access("watch", F_OK) != 0) {
    o.watch = true, o.rest.erase(o.rest.begin());
    if (o.rest.empty() || o.rest[0] == "-")
      return usage("watch needs a script: mtorch watch train.lua");
  }
  if (o.clean) unsetenv("LUA_PATH"), unsetenv("LUA_CPATH");

  lua_State* L = luaL_newstate();
  if (!L) return usage("cannot start Lua: not enough memory");
  luaL_openlibs(L);
  open_lua(L);
  lua_settop(L, 0);
  adjust_library(L);
  lua_pushcfunction(L, adjust_library);
  lua_setfield(L, LUA_REGISTRYINDEX, lua::kPrepareState);
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  sigaction(SIGINT, &action, nullptr);
  const std::optional<int> done = run_command(L, o.rest);
  int status = done ? *done : run_all(L, o, words);
  if (status != 0) {
    report(L);
    if (take_interrupt()) status = 130;
  }
  if (!o.profile.empty()) end_profile(L);
  lua_close(L);
  return status;
}

}  // namespace
}  // namespace mt::program

int main(int argc, char** argv) { return mt::program::main(argc, argv); }
