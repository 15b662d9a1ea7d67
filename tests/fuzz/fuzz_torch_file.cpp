// fuzz_torch_file.cpp -- the parser of torch.save's files; what is no archive is given the head of a stream, so that
// changes meet the pickle of the value
#include <string>

#include "engine/io/torch_file.h"
#include "tests/fuzz/fuzz.h"

MT_FUZZ({
  if (size >= 2 && data[0] == 'P' && data[1] == 'K') {
    mt::parse_torch(mt::file_of(data, size));
  } else {
    std::string text("\x80\2\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.\x80\2M\xe9\3.\x80\2}.", 25);
    text.append(data, size);
    mt::parse_torch(mt::file_of(text.data(), text.size()));
  }
})
