/* SPDX-License-Identifier: MIT */
/*
 * A guest that fits a boot sector: takes numbered tickets and writes each to
 * the word of RAM that belongs to it, like tests/lib/tickets.c with words of
 * four bytes.  Every 2^20 tickets it prints the number in hexadecimal on COM1.
 *
 *	0x500		tickets taken
 *	0x100000	WORDS words
 */
#define COUNTER 0x500
#define RAM 0x100000
#ifndef WORDS
#define WORDS 0x400000 /* 16 MiB */
#endif
#define STRIDE 0x9e3779b1
#define COM1 0x3f8

	.code16
	.globl _start
_start:
	cli
	xorw %ax, %ax
	movw %ax, %ds
	movw %ax, %ss
	movw $0x7c00, %sp
	/* A20 by the fast gate */
	inb $0x92, %al
	orb $2, %al
	andb $0xfe, %al
	outb %al, $0x92
	lgdt gdt_pointer
	movl %cr0, %eax
	orl $1, %eax
	movl %eax, %cr0
	ljmp $8, $start32

	.code32
start32:
	movw $16, %ax
	movw %ax, %ds
	movw %ax, %es
	movw %ax, %ss
	movl $0x7c00, %esp
	movl COUNTER, %ebx
next:
	imull $STRIDE, %ebx, %eax
	andl $(WORDS - 1), %eax
	incl %ebx
	movl %ebx, COUNTER
	movl %ebx, RAM(,%eax,4)
	testl $0xfffff, %ebx
	jnz next

	/* print %ebx and a new line */
	movl $8, %ecx
	movl %ebx, %edx
digit:
	roll $4, %edx
	movb %dl, %al
	andb $15, %al
	addb $'0', %al
	cmpb $'9', %al
	jbe put
	addb $('a' - '9' - 1), %al
put:
	call emit
	loop digit
	movb $'\n', %al
	call emit
	jmp next

emit:
	pushl %edx
	movw $COM1, %dx
	outb %al, %dx
	popl %edx
	ret

	.align 8
gdt:
	.quad 0
	.quad 0x00cf9a000000ffff /* code, flat */
	.quad 0x00cf92000000ffff /* data, flat */
gdt_pointer:
	.word 23
	.long gdt

	.org 510
	.word 0xaa55
