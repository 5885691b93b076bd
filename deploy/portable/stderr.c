/* What libpng and libjpeg-turbo read in the place of `stderr` (libraries.sh): their own handlers of errors, which are replaced
   (engine/picture). */
#include <stdio.h>

__attribute__((visibility("hidden"))) FILE* beamwright_stderr;
