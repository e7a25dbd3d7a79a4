typedef struct rvm_machine rvm_machine;
typedef struct {
    uint64_t held_bytes, peak_bytes, stack_bytes, steps, kernel_calls, invocations, system_calls, safepoints, copied_items,
        new_cells, reused_cells, switches;
    int64_t live_objects;
} rvm_stats;
typedef struct { uint32_t function, unit; } rvm_trace_frame;
typedef struct {
    uint32_t slot, kind;
    uint64_t word;
    uint16_t layout;
    uint8_t dtype, rank;
    int64_t dims[8];
    const char *name;
} rvm_trace_register;
typedef struct {
    int32_t code;
    uint32_t num_frames, num_inner, num_registers;
    uint64_t skipped;
    char message[256];
    const char *kernel;
    rvm_trace_frame frames[100];
    rvm_trace_register registers[32];
} rvm_trap_record;
typedef int32_t (*rvm_poll)(void *context);
rvm_machine *rvm_machine_new(rvm_program *program, uint64_t max_memory, uint64_t max_steps, uint64_t max_depth);
void rvm_machine_free(rvm_machine *machine);
typedef struct {
    const uint64_t *slots;
    uint64_t depth, run;
    uint32_t function, unit;
} rvm_trace_event;
typedef int32_t (*rvm_trace)(void *context, const rvm_trace_event *event);
void rvm_machine_set_trace(rvm_machine *machine, rvm_trace trace, void *context);
void rvm_machine_set_threads(rvm_machine *machine, uint32_t num_threads, uint32_t num_cores);
void rvm_machine_set_poll(rvm_machine *machine, rvm_poll poll, void *context);
const rvm_trap_record *rvm_machine_trap(const rvm_machine *machine);
void rvm_machine_interrupt(rvm_machine *machine);
bool rvm_machine_trim(rvm_machine *machine);
void rvm_machine_stats(const rvm_machine *machine, rvm_stats *stats);
bool rvm_machine_fail_allocation(rvm_machine *machine, int64_t k);
bool rvm_is_stress_build(void);

typedef struct {
    uint8_t kind, dtype, rank, layout_kind;
    uint16_t layout, tag;
    uint64_t num_fields;
    int64_t elements;
    int64_t dims[8];
    void *data;
    const char *name;
    const char *type_name;
    const uint8_t *field_dtype;
} rvm_value_info;
void rvm_value_inspect(uint64_t value, rvm_value_info *info);
void rvm_value_retain(uint64_t value);
void rvm_value_release(uint64_t value);
void rvm_value_drop(uint64_t value, rvm_program *program);
void rvm_value_fields(uint64_t value, uint64_t *fields);
void rvm_value_copy_data(uint64_t value, void *to);
bool rvm_value_read_reference(uint64_t value, uint64_t *content);
bool rvm_value_write_reference(uint64_t value, uint64_t content, rvm_program *program);
uint64_t rvm_value_new_tensor(uint8_t dtype, uint32_t rank, const int64_t *dims, const void *data);
void rvm_value_take_data(uint64_t value, void *to);
uint64_t rvm_value_new_word(uint8_t dtype, uint64_t word);
uint64_t rvm_value_new_cell(const rvm_program *program, uint32_t layout, const uint64_t *fields);
uint64_t rvm_value_new_reference(const rvm_program *program, uint32_t layout, uint64_t content);
uint64_t rvm_value_new_array(const rvm_program *program, uint32_t layout, const uint64_t *items, uint64_t length);
typedef struct {
    uint8_t kind, dtype, rank;
    uint64_t word;
    const void *data;
    int64_t dims[8];
} rvm_argument;
typedef struct { uint64_t calls, work, bytes, new_tensors, new_bytes; } rvm_kernel_profile;
typedef struct {
    uint32_t code, parent;
    uint64_t calls, intervals, timed, ticks;
    ...;
} rvm_profile_node;
typedef struct { uint64_t count, ticks; } rvm_profile_sample;
typedef struct { uint64_t ticks; uint32_t code; ...; } rvm_profile_event;
typedef struct {
    rvm_kernel_profile *kernels;
    rvm_profile_node *nodes;
    rvm_profile_sample *samples;
    rvm_profile_event *events;
    uint64_t *hits;
    uint64_t num_nodes, num_events, lost_events, num_hits;
    uint64_t time_ns, steps, ticks, untimed_ticks, first_ticks;
    uint64_t held_before_bytes, held_after_bytes, peak_bytes, system_calls, reused_cells;
    int32_t is_native;
    ...;
} rvm_profile;
rvm_profile *rvm_profile_new(const rvm_program *program, uint64_t max_events);
void rvm_profile_free(rvm_profile *profile);
uint64_t rvm_profile_first_unit(const rvm_program *program, uint32_t function);
typedef struct {
    void *data;
    int64_t dims[8];
    uint8_t dtype, rank;
} rvm_destination;
typedef struct {
    rvm_machine *machine;
    rvm_argument *args;
    uint64_t *results;
    rvm_value_info *infos;
    rvm_destination *destinations;
    uint32_t function;
    rvm_profile *profile;
} rvm_call;
int32_t rvm_machine_invoke(rvm_call *call);
int32_t rvm_machine_invoke_many(rvm_call *calls, uint32_t count, uint32_t *done);
void rvm_machine_take(rvm_call *calls, uint32_t count);
int rvm_value_equal(uint64_t a, uint64_t b);
uint64_t rvm_value_new_list(const rvm_program *program, uint32_t nil, uint32_t cons, uint32_t item,
                            const uint64_t *items, uint64_t count);
typedef struct rvm_misfit { uint64_t row; uint32_t rank; int64_t dims[8]; } rvm_misfit;
int rvm_value_has_sizes(uint64_t value, const int64_t *rows, uint64_t root, rvm_misfit *misfit);
uint64_t rvm_value_load_word(uint8_t dtype, const void *element);
typedef struct rvm_image_function { uint32_t code, enter; } rvm_image_function;
uint64_t rvm_native_abi(void);
int32_t rvm_program_set_native(rvm_program *program, const void *base, const rvm_image_function *functions,
                               uint64_t margin_bytes);
int32_t rvm_program_set_profiled(rvm_program *program, const void *base, const rvm_image_function *functions);
bool rvm_program_is_profiled(const rvm_program *program);
bool rvm_program_is_native(const rvm_program *program);
bool rvm_machine_set_native(rvm_machine *machine);
void rvm_machine_follow_native(rvm_machine *machine, uint64_t ask_after_steps);
void rvm_machine_interpret_first(rvm_machine *machine, uint64_t steps);
void rvm_program_set_compiler(rvm_program *program, const char *const *words, uint32_t count, const char *note);
uint64_t rvm_native_offset(const char *name);
uint64_t rvm_native_call(const char *name);
bool rvm_program_has_compiler(const rvm_program *program);
uint32_t rvm_native_compiles(void);
bool rvm_machine_is_native(rvm_machine *machine);
bool rvm_native_is_supported(void);

typedef struct {
    uint32_t num_params, num_results;
    const uint8_t *param_class;
    const uint8_t *result_class;
    const char *name;
} rvm_function_info;
typedef struct {
    uint8_t kind;
    uint16_t num_fields, constructor, num_constructors, function, signature;
    const uint8_t *field_class;
    const uint8_t *field_dtype;
    const char *name;
    const char *type_name;
} rvm_layout_info;
typedef struct { uint32_t found, source, line, column; } rvm_place;
uint32_t rvm_program_num_functions(const rvm_program *program);
uint32_t rvm_program_num_layouts(const rvm_program *program);
uint32_t rvm_program_num_kernels(const rvm_program *program);
bool rvm_program_function(const rvm_program *program, uint32_t function, rvm_function_info *info);
bool rvm_program_layout(const rvm_program *program, uint32_t layout, rvm_layout_info *info);
void rvm_program_place(const rvm_program *program, uint32_t function, uint32_t unit, rvm_place *place);
const char *rvm_program_source_name(const rvm_program *program, uint32_t source);
const char *rvm_program_source_text(const rvm_program *program, uint32_t source);
const char *rvm_program_kernel_name(const rvm_program *program, uint32_t kernel);
bool rvm_kernel_bind(rvm_program *program, uint32_t kernel, const uint64_t *phases, uint32_t num_phases);
int32_t rvm_kernel_empty(void *const *args, const int64_t *dims, int64_t begin, int64_t end, void *scratch,
                         int64_t *values);
uint64_t rvm_kernel_empty_address(void);

extern "Python" int32_t relayvm_poll(void *context);
extern "Python" int32_t relayvm_trace(void *context, const rvm_trace_event *event);
