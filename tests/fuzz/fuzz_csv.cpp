// fuzz_csv.cpp -- the CSV parser: the first byte chooses header and delimiter
#include "engine/io/formats.h"
#include "tests/fuzz/fuzz.h"

MT_FUZZ({
  if (size == 0) return;
  mt::CsvOptions options;
  options.header = data[0] & 1;
  options.delimiter = data[0] & 2 ? char(44) : char(9);
  mt::parse_csv({data + 1, size - 1}, options);
})
