// program.h -- the parts of the program `mtorch`
#pragma once
#include <fmt/core.h>

#include <cstdio>
#include <lua.hpp>
#include <string>
#include <utility>

namespace mt::program {

/// Writes to stdout or stderr, as fmt::print does, but without an exception where that fails.
template <class... A> void say(std::FILE* to, fmt::format_string<A...> text, A&&... values) {
  const std::string words = fmt::format(text, std::forward<A>(values)...);
  std::fwrite(words.data(), 1, words.size(), to);
}
/// Calls a function with a traceback handler. On failure the message is on the stack and the status
/// not 0.
int call(lua_State* L, int arguments, int results);
/// Prints the message at the top of the stack and removes it.
void report(lua_State* L);
/// From now on Ctrl-C ends LuaJIT's compiled loops too.
void interrupt_compiled(lua_State* L);
/// Whether Ctrl-C came since the last time; forgets it.
bool take_interrupt();
/// Sets the global mt and, where asked for, nn and optim; returns as `call` does.
int predefine(lua_State* L, bool nn, bool optim);
/// Loads the text of a chunk that is no file, and keeps it: kernels are made from their source.
int load_text(lua_State* L, const std::string& text, const char* chunk);
/// Reads and runs commands until the input ends; returns the exit status.
int repl(lua_State* L);
/// Says what was found on this machine and how to mend what was not; returns the exit status.
int doctor();

}  // namespace mt::program
