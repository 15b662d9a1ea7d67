// repl.cpp -- the interactive prompt: prints results, continues unfinished input, and survives
// errors
#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "bindings/program/program.h"
#include "kernels/dynamic_library.h"

namespace mt::program {
namespace {

/// Calls a function of prompt.lua with the values above the stack index `base`.
int call_prompt(lua_State* L, const char* name, int base, int results) {
  lua_getglobal(L, "require");
  lua_pushliteral(L, "mtorch.help.prompt");
  if (call(L, 1, 1) != 0) return 1;
  lua_getfield(L, -1, name);
  lua_insert(L, base + 1);
  lua_pop(L, 1);
  return call(L, lua_gettop(L) - base - 1, results);
}

lua_State* completing = nullptr;

/// The next completion of a word, for libedit, which frees it; null after the last one.
char* next_name(const char* word, int state) {
  static std::vector<std::string> names;
  static size_t at = 0;
  lua_State* L = completing;
  if (state == 0) {
    names.clear(), at = 0;
    const int top = lua_gettop(L);
    lua_pushstring(L, word);
    if (call_prompt(L, "complete", top, 1) == 0)
      for (int i = 1; i <= int(lua_objlen(L, -1)); ++i, lua_pop(L, 1)) {
        lua_rawgeti(L, -1, i);
        names.push_back(lua_tostring(L, -1));
      }
    lua_settop(L, top);
  }
  return at < names.size() ? strdup(names[at++].c_str()) : nullptr;
}

/// libedit, loaded when the prompt first appears; without it lines are read without editing.
class Editor {
 public:
  explicit Editor(lua_State* L) {
    if (!isatty(STDIN_FILENO)) return;
    const DynamicLibrary library({"libedit.so.2"});
    int (*read)(const char*) = nullptr;
    if (library.lacks({{"readline", readline_},
                       {"add_history", add_},
                       {"write_history", write_},
                       {"read_history", read}}))
      return;
    complete_with(library, L);
    path_ = history_path();
    if (!path_.empty()) read(path_.c_str());
  }

  /// Returns false at the end of input, and after Ctrl-C.
  bool read(const char* prompt, std::string& line) {
    gave_up = false;
    take_interrupt();  // of the previous code
    if (readline_) {
      char* text = readline_(prompt);
      if (!text && take_interrupt()) {
        say(stdout, "\n");
        gave_up = true;
      }
      if (!text) return false;
      line = text;
      if (*text) remember(text);
      std::free(text);
      return true;
    }
    if (isatty(STDIN_FILENO)) say(stdout, "{}", prompt);
    std::fflush(stdout);
    return bool(std::getline(std::cin, line));
  }

  bool gave_up = false;

 private:
  /// Tab completes Lua names; the text before a word is not part of it.
  static void complete_with(const DynamicLibrary& library, lua_State* L) {
    static char** (*matches)(const char*, char* (*)(const char*, int)) = nullptr;
    static int* stop = nullptr;  // otherwise libedit completes file names
    char** (**find)(const char*, int, int);
    const char** breaks;
    int* append;
    if (library.lacks({{"rl_completion_matches", matches},
                       {"rl_attempted_completion_function", find},
                       {"rl_attempted_completion_over", stop},
                       {"rl_completer_word_break_characters", breaks},
                       {"rl_completion_append_character", append}}))
      return;
    completing = L;
    *breaks = " \t\n\"'`@$><=;|&{}()[]+-*/^%,~#";
    *append = 0;
    *find = [](const char* word, int, int) {
      *stop = 1;
      return matches(word, next_name);
    };
  }
  /// Saves at once, because the process may end without notice.
  void remember(const char* text) {
    add_(text);
    if (!path_.empty()) write_(path_.c_str());
  }
  static std::string history_path() {
    const char* state = std::getenv("XDG_STATE_HOME");
    const char* home = std::getenv("HOME");
    if (!state && !home) return "";
    std::string folder = state ? state : std::string(home) + "/.local/state";
    folder += "/mtorch";
    std::error_code ignored;
    std::filesystem::create_directories(folder, ignored);
    return folder + "/history";
  }

  char* (*readline_)(const char*) = nullptr;
  int (*add_)(const char*) = nullptr;
  int (*write_)(const char*) = nullptr;
  std::string path_;
};

bool load(lua_State* L, const std::string& code) { return load_text(L, code, "=stdin") == 0; }

/// Whether the error at the top of the stack means that the input is incomplete.
bool unfinished(lua_State* L) {
  const std::string message = lua_tostring(L, -1);
  return message.size() >= 7 && message.compare(message.size() - 7, 7, "'<eof>'") == 0;
}

int results(lua_State* L) { return lua_gettop(L); }

/// Compiles the input: as an expression if possible, otherwise as statements, and reads more lines
/// if necessary. Leaves a function and its arguments, or an error message.
bool compile(lua_State* L, Editor& editor, std::string code) {
  if (!code.empty() && code[0] == '=') code = "return " + code.substr(1);
  for (;;) {
    // The values are arguments of a function that returns them: a tail call would lose the line.
    // After a comment the `)` needs its own line, which would become the last operation's line.
    const char* const end = code.find("--") == code.npos ? ")" : "\n)";
    if (load(L, "return (...)(" + code + end)) return lua_pushcfunction(L, results), true;
    lua_pop(L, 1);
    if (load(L, code)) return true;
    if (!unfinished(L)) return false;
    std::string more;
    if (!editor.read(">> ", more)) return false;
    lua_pop(L, 1);
    code += "\n" + more;
  }
}

void print_results(lua_State* L) {
  const int n = lua_gettop(L);
  if (n == 0) return;
  lua_pushvalue(L, 1);
  lua_setglobal(L, "_");
  if (call_prompt(L, "print", 0, 0) != 0) report(L);
}

/// Whether the line is this word, with or without a call, and no global has that name.
bool is_word(lua_State* L, const std::string& line, const char* word) {
  const size_t end = line.find_last_not_of(" \t") + 1, begin = line.find_first_not_of(" \t");
  const std::string text = line.substr(begin, end - begin);
  lua_getglobal(L, word);
  const bool taken = !lua_isnil(L, -1);
  lua_pop(L, 1);
  return !taken && (text == word || text == word + std::string("()"));
}

}  // namespace

int repl(lua_State* L) {
  if (isatty(STDIN_FILENO))
    say(stdout, "mtorch {} -- {}. mt, nn and optim are there; help, quit.\n", MT_VERSION,
        LUAJIT_VERSION);
  if (predefine(L, true, true) != 0) report(L);
  Editor editor(L);
  interrupt_compiled(L);
  std::string line;
  for (; editor.read("> ", line) || editor.gave_up; lua_settop(L, 0)) {
    lua_settop(L, 0);
    if (editor.gave_up) continue;
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    if (is_word(L, line, "quit") || is_word(L, line, "exit")) return 0;
    if (is_word(L, line, "help")) {
      if (call_prompt(L, "help", 0, 0) != 0) report(L);
      continue;
    }
    lua_pushlstring(L, line.data(), line.size());
    if (call_prompt(L, "take", 0, 1) != 0) {
      report(L);
      continue;
    }
    if (lua_toboolean(L, -1)) continue;
    lua_settop(L, 0);
    const bool silent = line.back() == ';';
    const bool compiled = compile(L, editor, line);
    if (editor.gave_up) continue;
    if (!compiled || call(L, lua_gettop(L) - 1, LUA_MULTRET) != 0) {
      report(L);
      take_interrupt();
    } else if (!silent) {
      print_results(L);
    }
  }
  if (isatty(STDIN_FILENO)) say(stdout, "\n");
  return 0;
}

}  // namespace mt::program
