// fuzz_image.cpp -- the decoders of PNG and JPEG
#include "engine/io/formats.h"
#include "tests/fuzz/fuzz.h"

MT_FUZZ({ mt::decode_image({data, size}, int(size % 5)); })
