// registry.h -- the names of `mt` and of tensors' methods; functions are created on first use
//
// Every garbage collection would walk six hundred functions created at the start, and memory-bound
// loops collect often (a large result is reused only after Lua has collected it).
#pragma once
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "bindings/core/lua.h"

namespace mt::lua {

class Registry {
 public:
  struct Name {
    const Entry *function = nullptr, *method = nullptr;  // of mt, of tensors
  };
  struct Subject {
    const char* title;
    std::vector<std::string> names;  // each name once, at its first subject
  };

  /// The following names belong to this subject. A repeated name replaces the entry.
  void subject(const char* title);
  void function(const Entry& e) { name(name_of(e)).function = &e; }
  void method(const Entry& e) { name(name_of(e)).method = &e; }
  /// A function and a method, with the in-place form if it has one.
  void both(const Entry& e);
  /// Another name for the entry `of`, and for its in-place form; ignored if there is none.
  void alias(const std::string& other, const std::string& of);
  void functions(const auto& list) {
    for (const Entry& e : list) function(e);
  }
  void methods(const auto& list) {
    for (const Entry& e : list) method(e);
  }
  void both(const auto& list) {
    for (const Entry& e : list) both(e);
  }

  const Name* find(const std::string& name) const;
  const std::vector<Subject>& subjects() const { return subjects_; }

 private:
  Name& name(const std::string& name);
  std::unordered_map<std::string, Name> names_;
  std::vector<Subject> subjects_;
  std::deque<OwnedEntry> in_place_;
};

/// All functions of tensors, in the order of their subjects.
const Registry& catalogue();

/// Adds the entry of a name to `mt` and the methods, unless they have it; false if there is none.
bool open_name(lua_State* L, const std::string& name);
/// Adds all names, for code that lists them; pushes the subjects, {title=, names..}.
void open_all(lua_State* L);

}  // namespace mt::lua
