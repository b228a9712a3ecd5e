/*
 * A SPANK plugin that gives srun and sbatch the --container-* flags of Pyxis, for the test cluster of slurm.sh. Pyxis
 * and enroot have no Debian package. What is alike, because callers come to depend on it:
 *
 * - A name that is in use is joined, one that was used is used again, and only else is the image unpacked. Names
 *   belong to a job ("container_scope=job": pyxis_JOB_NAME).
 * - Containers share the node's process numbers and network. Root inside is a plain user outside.
 * - Variables that the image (here: PATH and IMAGE) sets win over exported ones, unless --container-env names them.
 * - A working directory that is not there is an error.
 * - What the plugin has to say goes to the task's stderr.
 *
 * Arguments in plugstack.conf: the folder of containers, the folder of images (unpacked, owned by UID).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <slurm/spank.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define UID 5128000
#define PATHS 4096

SPANK_PLUGIN(pyxis, 1)

static char *given[5];
enum { IMAGE, NAME, WORKDIR, MOUNTS, ENV, NOTHING };

static int take(int which, const char *value, int remote)
{
	if (which != NOTHING) {
		free(given[which]);
		given[which] = strdup(value);
	}
	return 0;
}

static struct spank_option options[] = {
	{ "container-image", "IMAGE|PATH", "[pyxis] the image", 1, IMAGE, take },
	{ "container-name", "NAME", "[pyxis] the name of the container", 1, NAME, take },
	{ "container-workdir", "PATH", "[pyxis] working directory inside", 1, WORKDIR, take },
	{ "container-mounts", "SRC:DST[:FLAGS]", "[pyxis] bind mounts", 1, MOUNTS, take },
	{ "container-env", "NAME[,NAME...]", "[pyxis] variables that win over the image's", 1, ENV, take },
	{ "container-writable", NULL, "[pyxis] writable root", 0, NOTHING, take },
	{ "container-mount-home", NULL, "[pyxis] mount the home folder", 0, NOTHING, take },
	{ "no-container-mount-home", NULL, "[pyxis] no home folder", 0, NOTHING, take },
	{ "container-remap-root", NULL, "[pyxis] root inside", 0, NOTHING, take },
	{ "container-entrypoint", NULL, "[pyxis] run the entrypoint", 0, NOTHING, take },
	{ "no-container-entrypoint", NULL, "[pyxis] no entrypoint", 0, NOTHING, take },
	SPANK_OPTIONS_TABLE_END
};

int slurm_spank_init(spank_t spank, int ac, char **av)
{
	for (struct spank_option *one = options; one->name; one++)
		if (spank_option_register(spank, one) != ESPANK_SUCCESS)
			return -1;
	return 0;
}

static int failed(const char *what, const char *path)
{
	slurm_error("pyxis: %s %s: %s", what, path, strerror(errno));
	return -1;
}

static int write_file(const char *path, const char *format, int value)
{
	FILE *file = fopen(path, "we");
	if (!file || fprintf(file, format, value) < 0 || fclose(file))
		return failed("cannot write", path);
	return 0;
}

/* The process that holds a container: the first task in it that still lives. */
static int holder(const char *home)
{
	char path[PATHS];
	int pid = 0;
	snprintf(path, sizeof path, "%s/pid", home);
	FILE *file = fopen(path, "re");
	if (file) {
		if (fscanf(file, "%d", &pid) != 1)
			pid = 0;
		fclose(file);
	}
	snprintf(path, sizeof path, "/proc/%d/root/.pyxis", pid);
	return pid && access(path, F_OK) == 0 ? pid : 0;
}

static int join(int pid)
{
	static const char *const spaces[] = { "user", "mnt" };
	int fds[2];
	char path[PATHS];
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof path, "/proc/%d/ns/%s", pid, spaces[i]);
		if ((fds[i] = open(path, O_RDONLY | O_CLOEXEC)) < 0)
			return failed("cannot open", path);
	}
	for (int i = 0; i < 2; i++)
		if (setns(fds[i], 0))
			return failed("cannot join", spaces[i]);
	return setresgid(0, 0, 0) || setresuid(0, 0, 0) ? failed("cannot become", "root") : 0;
}

/* SRC:DST[:ro], separated by commas; what is not there inside is made. */
static int bind_all(const char *root, char *mounts)
{
	char path[PATHS];
	struct stat found;
	for (char *rest, *one = strtok_r(mounts, ",", &rest); one; one = strtok_r(NULL, ",", &rest)) {
		char *source = strsep(&one, ":"), *target = strsep(&one, ":");
		snprintf(path, sizeof path, "%s%s", root, target ? target : source);
		if (stat(source, &found))
			return failed("cannot mount", source);
		if (S_ISDIR(found.st_mode)) {
			for (char *at = path + strlen(root) + 1; at; at = at ? at + 1 : at) {
				if ((at = strchr(at, '/')))
					*at = 0;
				mkdir(path, 0755);
				if (!at)
					break;
				*at = '/';
			}
		} else {
			close(open(path, O_CREAT | O_CLOEXEC, 0644));
		}
		if (mount(source, path, NULL, MS_BIND | MS_REC, NULL))
			return failed("cannot mount", path);
		if (one && !strcmp(one, "ro") && mount(NULL, path, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL))
			return failed("cannot make read-only", path);
	}
	return 0;
}

static int own_spaces(void)
{
	if (setresgid(UID, UID, UID) || setresuid(UID, UID, UID) || prctl(PR_SET_DUMPABLE, 1))
		return failed("cannot become", "a plain user");
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS))
		return failed("cannot make", "namespaces");
	return write_file("/proc/self/setgroups", "deny", 0) || write_file("/proc/self/uid_map", "0 %d 1", UID) ||
	       write_file("/proc/self/gid_map", "0 %d 1", UID);
}

/* Whoever runs a step owns its pipes, and may open them by name (/dev/stdout). */
static void own_pipes(void)
{
	struct stat found;
	for (int fd = 0; fd < 3; fd++)
		if (!fstat(fd, &found) && S_ISFIFO(found.st_mode) && fchown(fd, UID, UID))
			failed("cannot own", "a pipe");
}

static int enter(const char *home, const char *image)
{
	static const char *const system[] = { "/proc", "/sys", "/dev" };
	char root[PATHS - 64], path[PATHS], layers[3 * PATHS];
	snprintf(root, sizeof root, "%s/root", home);
	snprintf(layers, sizeof layers, "lowerdir=%s,upperdir=%s/upper,workdir=%s/work,userxattr", image, home, home);
	if (own_spaces())
		return -1;
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) || mount("overlay", root, "overlay", 0, layers))
		return failed("cannot mount", layers);
	for (int i = 0; i < 3; i++) {
		snprintf(path, sizeof path, "%s%s", root, system[i]);
		if (mount(system[i], path, NULL, MS_BIND | MS_REC, NULL))
			return failed("cannot mount", path);
	}
	if (given[MOUNTS] && bind_all(root, given[MOUNTS]))
		return -1;
	snprintf(path, sizeof path, "%s/.pyxis", root);
	if (write_file(path, "%d", getpid()) || chdir(root))
		return -1;
	if (syscall(SYS_pivot_root, ".", ".") || umount2(".", MNT_DETACH) || chdir("/"))
		return failed("cannot change to", root);
	return 0;
}

static int create(const char *home, const char *image)
{
	static const char *const folders[] = { "", "/upper", "/work", "/root" };
	char path[PATHS];
	slurm_spank_log("pyxis: importing docker image: %s", given[IMAGE]);
	if (access(image, R_OK))
		return failed("failed to import docker image", given[IMAGE]);
	for (int i = 0; i < 4; i++) {
		snprintf(path, sizeof path, "%s%s", home, folders[i]);
		if ((mkdir(path, 0755) && errno != EEXIST) || chown(path, UID, UID))
			return failed("cannot make", path);
	}
	snprintf(path, sizeof path, "%s/image", home);
	return symlink(image, path) ? failed("cannot make", path) : 0;
}

static void image_sets(spank_t spank, const char *name, const char *value)
{
	char named[PATHS], wanted[256];
	snprintf(named, sizeof named, ",%s,", given[ENV] ? given[ENV] : "");
	snprintf(wanted, sizeof wanted, ",%s,", name);
	if (!strstr(named, wanted))
		spank_setenv(spank, name, value, 1);
}

int slurm_spank_task_init(spank_t spank, int ac, char **av)
{
	char node[256], store[1024], home[2048], image[PATHS - 64];
	uint32_t job = 0, step = 0;
	if (!given[IMAGE] && !given[NAME])
		return 0;
	spank_get_item(spank, S_JOB_ID, &job);
	spank_get_item(spank, S_JOB_STEPID, &step);
	if (spank_getenv(spank, "SLURMD_NODENAME", node, sizeof node) != ESPANK_SUCCESS || ac != 2)
		return failed("bad", "set-up");
	snprintf(store, sizeof store, "%s/%s", av[0], node);
	mkdir(store, 0755);
	if (given[NAME])
		snprintf(home, sizeof home, "%s/pyxis_%u_%s", store, job, given[NAME]);
	else
		snprintf(home, sizeof home, "%s/pyxis_%u.%u", store, job, step);

	int pid = holder(home), exists = access(home, F_OK) == 0;
	snprintf(image, sizeof image, "%s/image", home);
	if (!exists) {
		char name[2048] = "", place[PATHS - 64];
		if (!given[IMAGE]) {
			slurm_spank_log("pyxis: error: no container named \"%s\", and no --container-image", given[NAME]);
			return -1;
		}
		snprintf(name, sizeof name, "%s", given[IMAGE]);
		if (name[0] != '/') {
			for (char *at = name; *at; at++)
				if (*at == '/' || *at == ':' || *at == '#')
					*at = '+';
			snprintf(place, sizeof place, "%s/%s", av[1], name);
		} else {
			snprintf(place, sizeof place, "%s", name);
		}
		if (create(home, place))
			return -1;
	}
	slurm_spank_log("pyxis: %s", pid ? "reusing existing container PID" : "starting container ...");
	image_sets(spank, "PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
	image_sets(spank, "IMAGE", "nel-test");
	if (!pid) {
		char path[PATHS];
		snprintf(path, sizeof path, "%s/pid", home);
		if (write_file(path, "%d", getpid()))
			return -1;
	}
	own_pipes();
	if (pid ? join(pid) : enter(home, image))
		return -1;
	return given[WORKDIR] && chdir(given[WORKDIR]) ? failed("couldn't chdir to", given[WORKDIR]) : 0;
}
