// program.h -- the parts of the program `mtorch`
#pragma once
#include <fmt/core.h>

#include <cstdio>
#include <lua.hpp>
#include <string>
#include <utility>
#include <vector>

namespace mt::program {

/// Writes to stdout or stderr like fmt::print, but does not throw on failure.
template <class... A> void say(std::FILE* to, fmt::format_string<A...> text, A&&... values) {
  const std::string words = fmt::format(text, std::forward<A>(values)...);
  std::fwrite(words.data(), 1, words.size(), to);
}
/// Calls a function with a traceback handler. On failure the status is not 0 and the message is on
/// the stack.
int call(lua_State* L, int arguments, int results);
/// Prints the message at the top of the stack and removes it.
void report(lua_State* L);
/// Makes Ctrl-C interrupt LuaJIT's compiled loops too, from now on.
void interrupt_compiled(lua_State* L);
/// Whether Ctrl-C was pressed since the last call; resets it.
bool take_interrupt();
/// Pushes a field of a module of the library, or the message of an error; returns like `call`.
int push_library(lua_State* L, const char* module, const char* name);
/// A function for Lua: a line from the terminal behind a prompt, or nothing at the end of input.
int read_line(lua_State* L);
/// A function for Lua: adds a text to the history.
int remember_line(lua_State* L);
/// Reads and runs commands until the end of input; returns the exit status.
int repl(lua_State* L);
/// The version, with the commit where it is not that of the tag: 0.1.0+g66072a92 (cmake/version.sh).
const char* version();
/// Prints what was found on this machine and how to fix the rest; returns the exit status.
int doctor();
std::string program_path();

/// `mtorch --processes N --hosts a:4,b:4 --restarts N`
struct Processes {
  int count, most, restarts;  // most: the largest number of them on one machine
  std::string hosts;
};
/// Starts the processes of this program with these words by mpirun, says how one that failed has ended, and starts all
/// again while restarts are left; returns the exit status. Each process has its part of the cores as threads unless
/// OMP_NUM_THREADS is set.
int run_processes(const Processes&, const std::vector<std::string>& words);
/// In a process that run_processes has started: forks, and returns in the child. The parent waits for its end, which it
/// reports with the last call of mt.dist.
void report_end();

/// The functions of the program that the Jupyter plug-in calls.
struct JupyterHost {
  int (*call)(lua_State* L, int arguments, int results);
  bool (*take_interrupt)();
};

}  // namespace mt::program

/// Exported by libmtorch_jupyter.so: serves a connection file of Jupyter until the kernel is shut down.
extern "C" int mtorch_jupyter(lua_State* L, const char* connection_file,
                              const mt::program::JupyterHost& host);
