// repl.cpp -- the interactive prompt: prints results, continues unfinished input, and survives
// errors
#include <unistd.h>

#include <clocale>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "bindings/core/lua.h"
#include "bindings/program/program.h"
#include "kernels/dynamic_library.h"

namespace mt::program {

namespace {

/// Calls a function of help/prompt.lua with the values above the stack index `base`.
int call_prompt(lua_State* L, const char* name, int base, int results) {
  if (push_library(L, "mtorch.help.prompt", name) != 0) return 1;
  lua_insert(L, base + 1);
  return call(L, lua_gettop(L) - base - 1, results);
}

lua_State* completing = nullptr;
char** line_buffer = nullptr;  // libedit's line,
int* line_cursor = nullptr;    // its cursor,
int word_start = 0;            // and where the word to complete begins

/// The next completion of the word, for libedit, which frees it; null after the last one.
char* next_name(const char*, int state) {
  static std::vector<std::string> names;
  static size_t at = 0;
  lua_State* L = completing;
  if (state == 0) {
    names.clear(), at = 0;
    const int top = lua_gettop(L);
    lua_pushlstring(L, *line_buffer, size_t(*line_cursor));
    lua_pushinteger(L, word_start + 1);
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
    if (!setlocale(LC_CTYPE, "") || MB_CUR_MAX == 1) setlocale(LC_CTYPE, "C.UTF-8");
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
      std::free(text);
      return true;
    }
    if (isatty(STDIN_FILENO)) say(stdout, "{}", prompt);
    std::fflush(stdout);
    return bool(std::getline(std::cin, line));
  }

  /// Saves an input in the history at once, because the process may end without notice.
  void remember(const char* text) {
    if (add_) add_(text);
    if (write_ && !path_.empty()) write_(path_.c_str());
  }

  bool gave_up = false;

 private:
  /// Tab completes what prompt.lua says.
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
                       {"rl_completion_append_character", append},
                       {"rl_line_buffer", line_buffer},
                       {"rl_point", line_cursor}}))
      return;
    completing = L;
    *breaks = " \t\n\"'`@$><=;|&{}()[]+*^%,~#";
    *append = 0;
    *find = [](const char* word, int start, int) {
      *stop = 1;
      word_start = start;
      return matches(word, next_name);
    };
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

Editor& editor_for(lua_State* L) {
  static Editor editor(L);
  return editor;
}

}  // namespace

int read_line(lua_State* L) {
  Editor& editor = editor_for(L);
  std::string line;
  if (!editor.read(luaL_checkstring(L, 1), line) && !editor.gave_up) return 0;
  return lua::push_text(L, line), 1;
}

int remember_line(lua_State* L) {
  editor_for(L).remember(luaL_checkstring(L, 1));
  return 0;
}

int repl(lua_State* L) {
  if (isatty(STDIN_FILENO))
    say(stdout, "mtorch {} -- {}. mt, nn and optim are there; help, quit.\n", version(),
        LUAJIT_VERSION);
  if (call_prompt(L, "predefine", 0, 0) != 0) report(L);
  Editor& editor = editor_for(L);
  interrupt_compiled(L);
  std::string line;
  for (bool unfinished = false;; lua_settop(L, 0)) {
    const bool is_read = editor.read(unfinished ? ">> " : "> ", line);
    if (!is_read && !editor.gave_up && !unfinished) break;
    if (is_read) lua::push_text(L, line);
    else lua_pushnil(L);
    lua_pushboolean(L, editor.gave_up);
    const bool failed = call_prompt(L, "step", 0, 2) != 0;
    unfinished = !failed && lua_toboolean(L, 1);
    if (!failed && lua_toboolean(L, 2)) return 0;
    if (!failed) continue;
    report(L);
    take_interrupt();
  }
  if (isatty(STDIN_FILENO)) say(stdout, "\n");
  return 0;
}

}  // namespace mt::program
