/* Prints the number of each dim given, where n = 2, m = 3, in = 7 and k*2 = 10; or `none`. */
#include <stdlib.h>

#include "c_api/library.h"

int main(int count, char **words) {
    static const char *const names[] = {"n", "m", "in", "k*2"};
    static const int64_t sizes[] = {2, 3, 7, 10};
    known_sizes *known = calloc(1, sizeof *known + 4 * sizeof *known->rows);
    for (size_t i = 0; i < 4; i++) {
        known->rows[known->count].name = names[i];
        known->rows[known->count++].size = sizes[i];
    }
    for (int i = 1; i < count; i++) {
        int64_t number;
        if (size_of_dim(words[i], known, &number)) {
            printf("%lld\n", (long long)number);
        } else {
            puts("none");
        }
    }
    free(known);
    return 0;
}
