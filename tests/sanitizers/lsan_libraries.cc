// Leaks of libraries, which the sanitizer does not report, so that it looks for leaks of ours:
// - libsndfile 1.2.0 loses 6 KB for each Vorbis file that ends within its head.
// - LLVM's OpenMP runtime keeps 1,440 bytes for a thread of a region whose first thread has ended.
extern "C" {

const char* __lsan_default_suppressions();
const char* __lsan_default_suppressions() { return "leak:vorbis_info_init\nleak:libomp.so\n"; }

const char* __lsan_default_options();
const char* __lsan_default_options() { return "print_suppressions=0"; }

}  // extern "C"
