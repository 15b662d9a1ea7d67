// unicode_forms.h -- the normal forms and the lower case of text, by libutf8proc
#pragma once
#include <string>
#include <string_view>

namespace mt {

enum class TextForm { nfc, nfd, nfkc, nfkd, lowercase };

/// The text in a form of Unicode; bytes that are no UTF-8 stay.
std::string in_form(TextForm, std::string_view text);
/// Throws a sentence where libutf8proc cannot be loaded.
void check_text_forms();

}  // namespace mt
