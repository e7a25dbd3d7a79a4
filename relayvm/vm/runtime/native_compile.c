/* Compiling in the background: a thread starts one process for one program after the other, sends it the program, and
 * maps the code that comes back. No machine waits for it, and no lock of the host's is needed. The thread is there
 * before anything is asked for, as starting one takes longer than a run may pause. */
#include "loader.h"
#include "machine.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAGIC UINT64_C(0x31564954414e5652)
#define STACK_BYTES (256 * 1024)
#define STOP_SECONDS 2
#define NICENESS 10 /* whoever asked is more urgent */

extern char **environ;

/* Of `compile_state`. A program is asked for once; nothing is tried again after a failure. */
enum { IDLE, ASKED };

/* What a compiler ends its answer with. Before it: code, offsets of functions, offsets of what enters them, imports. */
typedef struct trailer {
    uint64_t magic, code_bytes, margin_bytes;
    uint32_t num_functions, num_imports;
} trailer;

/* All of it under the lock, but for the files, which are the thread's and, after a fork, the child's to close. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t asked = PTHREAD_COND_INITIALIZER, ended = PTHREAD_COND_INITIALIZER;
static rvm_program *first, *current;
static pid_t process;
static bool runs, is_busy, stops, handles_end; /* the thread is there; it compiles */
static pthread_once_t handles_fork = PTHREAD_ONCE_INIT;
static int channel = -1, answer = -1;

void rvm_program_set_compiler(rvm_program *program, const char *const *words, uint32_t count, const char *note) {
    size_t bytes = (count + 2) * sizeof(char *) + strlen(note) + 1;
    for (uint32_t i = 0; i < count; i++) {
        bytes += strlen(words[i]) + 1;
    }
    char **rows = calloc(1, bytes);
    if (!rows) {
        return;
    }
    char *text = (char *)(rows + count + 2);
    for (uint32_t i = 0; i < count; i++) {
        rows[i] = text;
        text = stpcpy(text, words[i]) + 1;
    }
    rows[count + 1] = strcpy(text, note); /* behind the null that ends the words */
    char **none = NULL;
    if (!__atomic_compare_exchange_n(&program->compiler, &none, rows, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
        free(rows);
    }
}

bool rvm_program_has_compiler(const rvm_program *program) {
    return __atomic_load_n(&program->compiler, __ATOMIC_RELAXED) != NULL;
}

uint32_t rvm_native_compiles(void) {
    pthread_mutex_lock(&lock);
    const uint32_t answers = first != NULL || is_busy;
    pthread_mutex_unlock(&lock);
    return answers;
}

/* --- the process --------------------------------------------------------------------------------- */

/* Not among the first three files, which it is to become in the other process. */
static int moved_up(int file) {
    const int up = file < 0 ? -1 : fcntl(file, F_DUPFD_CLOEXEC, 3);
    if (file >= 0) {
        close(file);
    }
    return up;
}

static int new_file(void) {
#ifdef __linux__
    const int file = memfd_create("relayvm", MFD_CLOEXEC);
    if (file >= 0) {
        return moved_up(file);
    }
#endif
    FILE *stream = tmpfile(); /* where there is no memfd_create: gone with its last descriptor */
    const int other = stream == NULL ? -1 : dup(fileno(stream));
    if (stream != NULL) {
        fclose(stream);
    }
    return moved_up(other);
}

static void close_files(void) {
    for (int i = 0; i < 2; i++) {
        int *file = i ? &answer : &channel;
        if (*file >= 0) {
            close(*file);
        }
        *file = -1;
    }
}

/* The thread is less urgent than who asks, and is moved out of the way, and the process with it, which inherits both: on
 * a CPU that they share, each slice of the process would be a pause of milliseconds in the run. Where there is one CPU,
 * being less urgent must do. */
#ifdef __linux__
static int asker_cpu; /* where the machine ran that asked last */
static cpu_set_t usual; /* where the thread might run when it began */
static bool knows_usual;

static void begin_aside(void) {
    setpriority(PRIO_PROCESS, 0, NICENESS); /* of this thread alone */
    knows_usual = sched_getaffinity(0, sizeof usual, &usual) == 0;
}

static void step_aside(void) {
    const int cpu = __atomic_load_n(&asker_cpu, __ATOMIC_RELAXED);
    if (knows_usual && cpu >= 0 && cpu < CPU_SETSIZE) {
        cpu_set_t others = usual;
        CPU_CLR((size_t)cpu, &others);
        sched_setaffinity(0, sizeof others, CPU_COUNT(&others) ? &others : &usual);
    }
}

static void note_asker(void) {
    __atomic_store_n(&asker_cpu, sched_getcpu(), __ATOMIC_RELAXED);
}
#else
static void begin_aside(void) {
}

static void step_aside(void) {
}

static void note_asker(void) {
}
#endif

/* In a group of its own: what the user types to end the program is not meant for it. */
static int spawn(rvm_program *program, int input) {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    if (posix_spawn_file_actions_init(&files) != 0) {
        return -1;
    }
    if (posix_spawnattr_init(&attributes) != 0) {
        posix_spawn_file_actions_destroy(&files);
        return -1;
    }
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    int failed = posix_spawn_file_actions_adddup2(&files, input, 0) ||
                 posix_spawn_file_actions_adddup2(&files, answer, 1) ||
                 posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
    char **words = __atomic_load_n(&program->compiler, __ATOMIC_ACQUIRE);
    failed = failed || posix_spawn(&process, words[0], &files, &attributes, words, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    if (failed) {
        process = 0;
    }
    return failed ? -1 : 0;
}

static int start_process(rvm_program *program) {
    step_aside();
    int ends[2] = {-1, -1};
    int failed = socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    channel = moved_up(ends[0]);
    const int input = moved_up(ends[1]);
    answer = new_file();
    failed = failed || channel < 0 || input < 0 || answer < 0 || spawn(program, input);
    if (input >= 0) {
        close(input);
    }
    return failed ? -1 : 0;
}

static int write_all(const void *bytes, size_t size) {
    for (const uint8_t *at = bytes; size != 0;) {
        const ssize_t done = write(channel, at, size); /* the thread has blocked SIGPIPE */
        if (done <= 0) {
            return -1;
        }
        at += done;
        size -= (size_t)done;
    }
    return 0;
}

static const char *note_of(const rvm_program *program) {
    char **row = program->compiler;
    while (*row) {
        row++;
    }
    return row[1];
}

/* All sections but the constants, then the note. The channel stays open, so that the process ends when this one does. */
static void send_program(const rvm_program *program) {
    for (uint32_t i = 0; i < RVM_NUM_SECTIONS; i++) {
        const rvm_section *section = &program->sections[i];
        const uint64_t size = i == RVM_SECTION_DATA ? 0 : section->size;
        if (write_all(&size, sizeof size) || write_all(section->bytes, size)) {
            return;
        }
    }
    const char *note = note_of(program);
    const uint64_t size = strlen(note);
    if (write_all(&size, sizeof size) == 0) {
        write_all(note, size);
    }
}

static void wait_for_process(void) {
    siginfo_t info;
    waitid(P_PID, (id_t)process, &info, WEXITED | WNOWAIT);
    pthread_mutex_lock(&lock);
    waitpid(process, NULL, 0); /* under the lock: nobody signals a number that is another's by now */
    process = 0;
    pthread_mutex_unlock(&lock);
}

/* --- its answer ---------------------------------------------------------------------------------- */

static int read_all(void *to, size_t size) {
    for (size_t at = 0; at < size;) {
        const ssize_t done = pread(answer, (uint8_t *)to + at, size - at, (off_t)at);
        if (done <= 0) {
            return -1;
        }
        at += (size_t)done;
    }
    return 0;
}

static bool are_inside(const rvm_image_function *functions, size_t count, uint64_t limit) {
    for (size_t i = 0; i < count; i++) {
        if (functions[i].code >= limit || functions[i].enter >= limit) {
            return false;
        }
    }
    return true;
}

/* A process that was ended half-way leaves no trailer. */
static int link_answer(rvm_program *program, uint8_t *memory, size_t size) {
    trailer end;
    if (size < sizeof end) {
        return -1;
    }
    memcpy(&end, memory + size - sizeof end, sizeof end);
    const uint64_t tables = end.num_functions * sizeof(rvm_image_function) + end.num_imports * sizeof(rvm_image_import);
    if (end.magic != MAGIC || end.num_functions != program->num_functions || end.code_bytes % 8 != 0 ||
        end.code_bytes > size || end.code_bytes + tables + sizeof end != size) {
        return -1;
    }
    const rvm_image_function *functions = (const void *)(memory + end.code_bytes);
    const rvm_image_import *imports = (const void *)(functions + end.num_functions);
    if (!are_inside(functions, end.num_functions, end.code_bytes) ||
        rvm_fill_imports(memory, end.code_bytes, imports, end.num_imports) ||
        mprotect(memory, size, PROT_READ | PROT_EXEC)) {
        return -1;
    }
    __builtin___clear_cache((char *)memory, (char *)memory + end.code_bytes);
    program->native_memory = memory;
    program->native_bytes = size;
    return rvm_program_set_native(program, memory, functions, end.margin_bytes);
}

static void take_answer(rvm_program *program) {
    struct stat status;
    if (fstat(answer, &status) != 0 || status.st_size <= 0) {
        return;
    }
    const size_t size = (size_t)status.st_size;
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return;
    }
    if ((read_all(memory, size) || link_answer(program, memory, size)) && program->native_memory != memory) {
        munmap(memory, size);
    }
}

/* --- the thread ---------------------------------------------------------------------------------- */

/* Takes the lock, and leaves it taken. */
static void finish(rvm_program *program, bool is_started) {
    if (is_started) {
        send_program(program);
        wait_for_process();
        take_answer(program);
    }
    pthread_mutex_lock(&lock);
    close_files();
    current = NULL;
    pthread_mutex_unlock(&lock);
    rvm_program_release(program);
    pthread_mutex_lock(&lock);
    is_busy = false;
}

static void *work(void *unused) {
    (void)unused;
    begin_aside();
    pthread_mutex_lock(&lock);
    while (!stops) {
        if (!first) {
            pthread_cond_wait(&asked, &lock);
            continue;
        }
        rvm_program *program = current = first;
        first = program->next_to_compile;
        is_busy = true;
        const bool is_started = !rvm_program_is_native(program) && start_process(program) == 0;
        pthread_mutex_unlock(&lock);
        finish(program, is_started);
    }
    runs = false;
    pthread_cond_broadcast(&ended);
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void stop(void) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += STOP_SECONDS;
    pthread_mutex_lock(&lock);
    stops = true;
    pthread_cond_signal(&asked);
    if (process) {
        kill(process, SIGKILL);
    }
    while (runs && pthread_cond_timedwait(&ended, &lock, &until) == 0) {
    }
    pthread_mutex_unlock(&lock);
}

static void before_fork(void) {
    pthread_mutex_lock(&lock);
}

static void after_fork(void) {
    pthread_mutex_unlock(&lock);
}

/* The thread is the parent's, and so is what it was asked for: machines here may ask again. */
static void after_fork_in_child(void) {
    rvm_program *rows[2] = {current, first};
    current = first = NULL;
    runs = is_busy = false;
    process = 0;
    close_files();
    pthread_cond_init(&asked, NULL);
    pthread_cond_init(&ended, NULL);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < 2; i++) {
        for (rvm_program *program = rows[i]; program;) {
            rvm_program *next = i ? program->next_to_compile : NULL;
            __atomic_store_n(&program->compile_state, IDLE, __ATOMIC_RELEASE);
            rvm_program_release(program);
            program = next;
        }
    }
}

static void handle_fork(void) {
    pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

void native_compile_lock(void) {
    pthread_once(&handles_fork, handle_fork);
    pthread_mutex_lock(&lock);
}

void native_compile_unlock(void) {
    pthread_mutex_unlock(&lock);
}

static bool start_thread(void) {
    pthread_once(&handles_fork, handle_fork);
    handles_end = handles_end || atexit(stop) == 0;
    pthread_attr_t attributes;
    if (!handles_end || pthread_attr_init(&attributes) != 0) {
        return false;
    }
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigset_t all, before; /* handlers of the host are none of its business */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    const bool started = pthread_create(&thread, &attributes, work, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return started;
}

static void start_if_needed(void) {
    if (!runs && !stops) {
        runs = start_thread();
    }
}

void native_compile_prepare(void) {
    native_compile_lock();
    start_if_needed();
    native_compile_unlock();
}

/* While another process is being started the lock is held for long: then the machine asks again later. */
bool native_compile_ask(rvm_program *program) {
    if (__atomic_load_n(&program->compile_state, __ATOMIC_RELAXED) != IDLE ||
        !__atomic_load_n(&program->compiler, __ATOMIC_ACQUIRE) || rvm_program_is_native(program)) {
        return false;
    }
    if (pthread_mutex_trylock(&lock) != 0) {
        return true;
    }
    start_if_needed(); /* a forked child has none yet */
    int32_t idle = IDLE;
    note_asker();
    if (runs && !stops && __atomic_compare_exchange_n(&program->compile_state, &idle, ASKED, false, __ATOMIC_ACQ_REL,
                                                      __ATOMIC_RELAXED)) {
        rvm_program_retain(program);
        program->next_to_compile = NULL;
        rvm_program **at = &first;
        while (*at) {
            at = &(*at)->next_to_compile;
        }
        *at = program;
        pthread_cond_signal(&asked);
    }
    pthread_mutex_unlock(&lock);
    return true;
}
