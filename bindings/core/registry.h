// registry.h -- the names of `mt` and of tensors' methods; Lua meets a function when it asks for it
//
// Six hundred functions made at the start would be walked by every collection, and memory-bound
// loops collect often (a large result is reused only once Lua has let go of it).
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
    std::vector<std::string> names;  // each name once, where it came up first
  };

  /// What is added next belongs to this subject. A name that comes again replaces the entry.
  void subject(const char* title);
  void function(const Entry& e) { name(name_of(e)).function = &e; }
  void method(const Entry& e) { name(name_of(e)).method = &e; }
  /// With the form in place where it has one.
  void both(const Entry& e);
  /// Another name for what has this one; nothing when nothing has.
  void alias(const std::string& other, const std::string& of);
  void functions(const auto& list) {
    for (const Entry& e : list) function(e);
  }
  void methods(const auto& list) {
    for (const Entry& e : list) method(e);
  }
  void add_with_method(const auto& list) {
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

/// Puts what goes by a name into `mt` and the methods, unless they have it; false when nothing does.
bool open_name(lua_State* L, const std::string& name);
/// Puts all names there, for who wants to list them; pushes the subjects, {title=, names..}.
void open_all(lua_State* L);

}  // namespace mt::lua
