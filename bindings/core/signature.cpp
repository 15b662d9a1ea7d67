// signature.cpp -- the signatures of entries, taken apart once
#include <cstring>

#include "bindings/core/lua.h"

namespace mt::lua {

std::string name_of(const Entry& e) {
  const char* end = std::strchr(e.signature, '(');
  return std::string(e.signature, end ? size_t(end - e.signature) : std::strlen(e.signature));
}

namespace {

Signature parse(const std::string& text) {
  Signature s;
  const size_t open = text.find('(');
  s.name = text.substr(0, open);
  std::string params = text.substr(open + 1, text.rfind(')') - open - 1);
  for (size_t at = 0; at < params.size();) {
    size_t end = at;
    for (int depth = 0; end < params.size() && (depth > 0 || params[end] != ','); ++end)
      depth += params[end] == '{' || params[end] == '['   ? 1
               : params[end] == '}' || params[end] == ']' ? -1
                                                          : 0;
    std::string item = params.substr(at, end - at);
    item.erase(0, item.find_first_not_of(' '));
    at = end + 1;
    if (item == "..") {
      s.open = true;
      continue;
    }
    if (item == "{out=}") {
      s.out = true;
      continue;
    }
    Signature::Param p;
    if (const size_t equals = item.find('='); equals != std::string::npos) {
      p.optional = true;
      p.default_text = item.substr(equals + 1);
      item.resize(equals);
    }
    if (item[0] == '[') {
      p.list = true;
      item = item.substr(1, item.size() - 2);
      if (item.size() > 2 && item.substr(item.size() - 2) == "..")
        p.collect = true, item.resize(item.size() - 2);
    }
    p.name = item;
    s.collects |= p.collect;
    if (!p.optional) s.required = int(s.params.size()) + 1;
    s.params.push_back(p);
  }
  return s;
}

}  // namespace

Entry::~Entry() { delete parsed.load(); }

const Signature& signature_of(const Entry& e) {
  const Signature* known = e.parsed.load(std::memory_order_acquire);
  if (known) return *known;
  const Signature* fresh = new Signature(parse(e.signature));  // once for each entry
  if (e.parsed.compare_exchange_strong(known, fresh)) return *fresh;
  delete fresh;
  return *known;
}

}  // namespace mt::lua
