// regex.h -- the regular expressions of tokenizers, by PCRE2
#pragma once
#include <functional>
#include <memory>
#include <string_view>

struct pcre2_real_code_8;

namespace mt {

/// The \w of Unicode (UTS 18), for a class in brackets; PCRE2's lacks marks.
#define MT_WORD "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}"

/// A pattern of PCRE2, with Unicode's properties and ^ and $ at each line; texts are UTF-8.
class Regex {
 public:
  /// Throws Error with the position if the pattern is not valid, or if PCRE2 cannot be loaded.
  explicit Regex(std::string_view pattern);
  /// Calls f for each match that is not empty, from left to right. Bytes that are not UTF-8 are in none.
  void each_match(std::string_view text, const std::function<void(std::string_view)>& f) const;
  /// Whether a part of the text matches.
  bool is_in(std::string_view text) const;

 private:
  std::shared_ptr<pcre2_real_code_8> code_;
};

}  // namespace mt
