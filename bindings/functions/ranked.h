// ranked.h -- operations over one, two and three spatial dimensions as one entry
#pragma once
#include <deque>
#include <string>

#include "bindings/core/registry.h"

namespace mt::lua {

/// Entries for the ranks first .. last. In the texts # is the rank, and
/// <length|height x width|depth x height x width> the part for it.
struct RankedEntry {
  const char *signature, *doc;
  Body body;
  int first = 1, last = 3;
};

inline std::string text_of_rank(const char* pattern, int rank) {
  std::string text;
  int part = 0;  // inside <a|b|c>: 1, 2 or 3
  for (const char* c = pattern; *c; ++c) {
    if (*c == '<') part = 1;
    else if (*c == '>') part = 0;
    else if (*c == '|' && part) ++part;
    else if (!part || part == rank) text += *c == '#' ? char('0' + rank) : *c;
  }
  return text;
}

/// Calls add(const Entry&) for each rank of each entry.
void add_ranks(const auto& list, const auto& add) {
  static std::deque<OwnedEntry> entries;
  for (const RankedEntry& e : list)
    for (int rank = e.first; rank <= e.last; ++rank)
      add(entries.emplace_back(text_of_rank(e.signature, rank), text_of_rank(e.doc, rank), e.body)
              .entry);
}

}  // namespace mt::lua
