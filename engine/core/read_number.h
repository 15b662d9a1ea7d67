// read_number.h -- strtod with the decimal point "." in every locale (of a host program, of os.setlocale)
#pragma once
#include <locale.h>
#include <stdlib.h>

namespace mt {

inline double read_number(const char* text, char** end = nullptr) {
  static const locale_t plain = newlocale(LC_ALL_MASK, "C", nullptr);
  return strtod_l(text, end, plain);
}

}  // namespace mt
