// The start of a program: the state that its parent left it in, made fit to work in.
#pragma once

namespace trainer {

// Opens the standard streams that are closed (files/standard_streams.h). Sets SIGCHLD, which a parent may ignore, to
// its default: ignored, it hides how helpers and ranks end. Ignores SIGXFSZ: beyond a limit on file sizes a write
// fails. Unblocks all signals. Where the stack is too small for LibTorch, or the working folder was removed, says so
// and ends the process with exit code 2.
//
// Makes system calls only. Programs call it before LibTorch is initialised, which takes a good part of a second:
// AT_PROGRAM_START.
void start_program(const char* name);

}  // namespace trainer

// Runs `function` before the constructors of all libraries. In the source file of `main`.
#define AT_PROGRAM_START(function) \
  [[gnu::section(".preinit_array"), gnu::used]] void (*const function##_at_start)() = function
