// fuzz_tokenizer.cpp -- files of tokenizers, and what these make of a text
#include "engine/text/tokenizer.h"
#include "tests/fuzz/fuzz.h"

MT_FUZZ({
  const mt::Tokenizer tokenizer({data, size});
  const auto ids = tokenizer.encode("It's  12 w\xc3\xb6rds,\n\n \xe2\x96\x81 \xff");
  tokenizer.decode(ids, false);
})
