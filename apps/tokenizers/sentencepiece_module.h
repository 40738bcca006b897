// The functions that the module with the sentencepiece library gives to the program.
//
// The library and LibTorch each have a global variable FLAGS_minloglevel, of different types. In one program the
// dynamic linker makes them one: the library's constructor then writes over LibTorch's neighbouring variables, and its
// destructor frees what it finds there (https://github.com/google/sentencepiece/issues/944). So the library is linked
// into a module of its own, which is loaded with RTLD_LOCAL | RTLD_DEEPBIND: its symbols and the library's are looked
// up among themselves first.
//
// With RTLD_DEEPBIND the two sides may even have different allocators (a preloaded one, say). So nothing that one side
// allocates is freed by the other, and the interface is C's.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

// Takes a result during a call; may be called with several parts.
struct FsdpTextSink {
  void* owner;
  void (*take)(void* owner, const char* bytes, size_t size);
};
struct FsdpTokenSink {
  void* owner;
  void (*take)(void* owner, const int32_t* tokens, size_t count);
};

// Gives sentence after sentence; false at the end.
struct FsdpSentences {
  void* owner;
  bool (*next)(void* owner, const char** bytes, size_t* size);
};

// Functions that can fail return null or false, and tell `problem` why.
struct FsdpSentencePiece {
  void* (*load)(const char* model, size_t size, FsdpTextSink problem);
  void (*unload)(void* model);
  int32_t (*vocabulary)(const void* model);
  int32_t (*end_of_text)(const void* model);  // negative: there is none
  bool (*encode)(const void* model, const char* text, size_t size, FsdpTokenSink tokens, FsdpTextSink problem);
  bool (*decode)(const void* model, const int32_t* tokens, size_t count, FsdpTextSink text, FsdpTextSink problem);
  bool (*train)(FsdpSentences sentences, int32_t vocabulary, FsdpTextSink model, FsdpTextSink problem);
};

// The one symbol that the program looks up.
const FsdpSentencePiece* fsdp_sentencepiece();
}
