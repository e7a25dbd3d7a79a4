/* Runs a compiled Tree-LSTM on a tree: run_trees FILE TREE. The tree is written as (left right) around letters, as in
 * ((a b) c). Prints the state of the root exactly, in hexadecimal. */
#include <relayvm.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct builder {
    rvm_executable *executable;
    const rvm_constructor *leaf, *node;
    const char *at; /* rest of the text */
    rvm_error error;
} builder;

/* The vector of a letter: numbers that every language computes alike. */
static rvm_value *make_vector(builder *b, char letter) {
    const rvm_type *type = b->leaf->fields[0];
    size_t elements = 1;
    for (uint32_t i = 0; i < type->rank; i++) {
        elements *= (size_t)type->dims[i];
    }
    float *vector = malloc(elements * sizeof *vector);
    for (size_t i = 0; vector && i < elements; i++) {
        vector[i] = (float)((letter * 31 + (int)i * 17) % 101 - 50) / 64;
    }
    rvm_value *value = rvm_tensor_copy(b->executable, RVM_FLOAT32, type->rank, type->dims, vector, &b->error);
    free(vector);
    return value;
}

/* Consumes the fields. */
static rvm_value *make(builder *b, const rvm_constructor *constructor, rvm_value *first, rvm_value *second) {
    const rvm_value *fields[] = {first, second};
    rvm_value *made = NULL;
    if (first && (second || constructor == b->leaf)) {
        made = rvm_data_make(b->executable, constructor, fields, constructor->num_fields, &b->error);
    }
    rvm_value_free(first);
    rvm_value_free(second);
    return made;
}

static rvm_value *read_tree(builder *b) {
    b->at += strspn(b->at, " ");
    if (islower((unsigned char)*b->at)) {
        return make(b, b->leaf, make_vector(b, *b->at++), NULL);
    }
    if (*b->at != '(') {
        snprintf(b->error.code, sizeof b->error.code, "wrong-argument");
        snprintf(b->error.message, sizeof b->error.message, "a tree is a letter or (left right), not `%.40s`", b->at);
        return NULL;
    }
    b->at++;
    rvm_value *left = read_tree(b), *right = left ? read_tree(b) : NULL;
    b->at += strspn(b->at, " ");
    b->at += *b->at == ')';
    return make(b, b->node, left, right);
}

/* The constructors of the data type that the entry takes, by their names. */
static int find_constructors(builder *b) {
    const rvm_entry_description *entry = rvm_executable_find_entry(b->executable, "main");
    const rvm_data_type *tree = entry && entry->num_parameters == 1 ? entry->parameters[0]->data : NULL;
    for (size_t i = 0; tree && i < tree->num_constructors; i++) {
        const rvm_constructor *row = &tree->constructors[i];
        b->leaf = strcmp(row->name, "Leaf") == 0 ? row : b->leaf;
        b->node = strcmp(row->name, "Node") == 0 ? row : b->node;
    }
    return b->leaf && b->node ? 0 : -1;
}

static int run(builder *b, rvm_vm *vm, const rvm_value *tree) {
    const size_t num_results = rvm_executable_find_entry(b->executable, "main")->num_results;
    rvm_value *states[8];
    if (num_results > 8 || rvm_vm_run(vm, "main", &tree, 1, states, num_results, &b->error) != 0) {
        fprintf(stderr, "%s\n", rvm_vm_trap(vm));
        return -1;
    }
    for (size_t r = 0; r < num_results; r++) {
        const rvm_tensor_view view = rvm_value_tensor(states[r]);
        for (size_t i = 0; i < view.num_elements; i++) {
            printf("%a\n", ((const float *)view.elements)[i]);
        }
        rvm_value_free(states[r]);
    }
    return 0;
}

int main(int count, char **words) {
    if (count != 3) {
        fprintf(stderr, "usage: run_trees FILE TREE\n");
        return 2;
    }
    builder b = {.at = words[2]};
    b.executable = rvm_executable_load_file(words[1], RVM_ALLOW_NATIVE, &b.error);
    rvm_vm *vm = b.executable ? rvm_vm_new(b.executable, NULL, &b.error) : NULL;
    rvm_value *tree = vm && find_constructors(&b) == 0 ? read_tree(&b) : NULL;
    const int status = tree ? run(&b, vm, tree) : -1;
    if (status) {
        fprintf(stderr, "error[%s]: %s\n", b.error.code, b.error.message);
    }
    rvm_value_free(tree);
    rvm_vm_free(vm);
    rvm_executable_free(b.executable);
    return status != 0;
}
